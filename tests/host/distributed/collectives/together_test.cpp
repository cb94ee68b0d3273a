// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/together.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/thread_ranks.hpp"
#include "tests/support/values_group.hpp"

namespace tenon {
namespace {

// Counts the exchanges that are started.
class CountedGroup final : public ValuesGroup {
 public:
  CountedGroup(Group& inner, std::atomic<int>& count) : inner_(inner), count_(count) {}
  uint32_t rank() const override { return inner_.rank(); }
  uint32_t size() const override { return inner_.size(); }
  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view what) override {
    ++count_;
    return inner_.start_gather(mine, what);
  }

 private:
  Group& inner_;
  std::atomic<int>& count_;
};

}  // namespace

TEST_CASE("what fails on one rank fails on all, and rank 0 tells it", "[distributed]") {
  struct Heard {
    std::string what;
    bool is_printed_here = false;
    int num_calls = 0;
    bool has_lone_rank = false;
  };
  std::vector<Heard> heard(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    Heard& mine = heard[control.rank()];
    together(control, "test", [&] { ++mine.num_calls; });
    try {
      together(control, "test", [&] {
        ++mine.num_calls;
        if (control.rank() > 0) {
          throw Error("data.empty", "nothing on " + std::to_string(control.rank()));
        }
      });
    } catch (const SharedFailure& failure) {
      mine.what = failure.what();
      mine.is_printed_here = failure.is_printed_here();
      mine.has_lone_rank = failure.lone_rank().has_value();
    }
  });
  for (size_t rank = 0; rank < heard.size(); ++rank) {
    CHECK(heard[rank].num_calls == 2);
    CHECK(heard[rank].what == "[data.empty] rank 1: nothing on 1");
    CHECK(heard[rank].is_printed_here == (rank == 0));
    CHECK_FALSE(heard[rank].has_lone_rank);  // two ranks had it
  }
}

TEST_CASE("an error of rank 0 is told as it is, and one rank alone has its own", "[distributed]") {
  std::vector<std::string> heard(2);
  std::vector<int> codes(2);
  std::vector<int> lone(2);
  run_ranks(2, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    try {
      together(control, "test", [&] {
        if (control.rank() == 0) {
          throw Error("run.dir_exists", "two\nlines");
        }
      });
    } catch (const SharedFailure& failure) {
      heard[control.rank()] = failure.what();
      codes[control.rank()] = static_cast<int>(failure.exit_code());
      lone[control.rank()] = static_cast<int>(failure.lone_rank().value_or(9));
    }
  });
  CHECK(heard == std::vector<std::string>(2, "[run.dir_exists] two\nlines"));
  CHECK(codes == std::vector<int>(2, static_cast<int>(Error("run.dir_exists", "").exit_code())));
  CHECK(lone == std::vector<int>{0, 0});
  LocalGroup alone;
  bool is_shared = false;
  try {
    together(alone, "test", [] { throw Error("data.empty", "nothing"); });
  } catch (const SharedFailure&) {
    is_shared = true;
  } catch (const Error&) {
  }
  CHECK_FALSE(is_shared);
}

TEST_CASE("ranks that are done report so while one still works", "[distributed]") {
  std::vector<std::string> heard(3);
  std::atomic<int> num_signs = 0;
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    CountedGroup counted(control, num_signs);
    try {
      together_for_long(counted, "test", [&] {
        // Rank 2 works until the others have exchanged some signs of life.
        while (control.rank() == 2 && num_signs < 6) {
          std::this_thread::yield();
        }
        if (control.rank() == 2) {
          throw Error("data.empty", "nothing");
        }
      });
    } catch (const SharedFailure& failure) {
      heard[control.rank()] = failure.what();
    }
  });
  CHECK(heard == std::vector<std::string>(3, "[data.empty] rank 2: nothing"));
}

}  // namespace tenon
