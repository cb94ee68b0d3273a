// SPDX-License-Identifier: Apache-2.0

#include "host/data/read_ahead.hpp"

#include <ATen/Functions.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Reads 0, 1, ... `n` - 1, each giving its number as its position; in lanes where `num_lanes` > 0,
// each of which ends with its read number `lane_length` - 1, or by a read that finds nothing.
class NumberPlan final : public ReadPlan {
 public:
  explicit NumberPlan(int64_t n, uint32_t num_lanes = 0, int64_t lane_length = 0)
      : n_(n), lane_length_(lane_length), done_(num_lanes), ended_(num_lanes, false) {}

  std::optional<ReadRequest> next() override {
    if (ended_.empty()) {
      return next_ < n_ ? std::optional(ReadRequest{.first = next_++}) : std::nullopt;
    }
    for (size_t i = 0; i < ended_.size(); ++i) {
      const uint32_t lane = static_cast<uint32_t>(turn_++ % ended_.size());
      if (!ended_[lane]) {
        return ReadRequest{.lane = lane};
      }
    }
    return std::nullopt;
  }

  void end_lane(uint32_t lane) override { ended_[lane] = true; }

  ReadResult read(const ReadRequest& request) override {
    {
      std::unique_lock lock(mutex_);
      ++num_begun;
      most_at_once = std::max(most_at_once, ++at_once_);
      changed_.notify_all();
      changed_.wait(lock, [&] { return is_open_; });
      --at_once_;
    }
    ReadResult result;
    if (request.lane == kNoLane) {
      if (request.first == broken) {
        throw std::runtime_error("number " + std::to_string(broken));
      }
      result.batch.emplace();
      if (batch_bytes > 0) {
        result.batch->fields.push_back(at::zeros({batch_bytes}, at::kByte));
      }
      result.position = std::to_string(request.first);
      return result;
    }
    const int64_t number = done_[request.lane]++;
    if (number < lane_length_) {
      result.batch.emplace();
    }
    result.has_ended_lane = number >= lane_length_;
    result.position = std::to_string(request.lane) + ":" + std::to_string(number);
    return result;
  }

  // While closed, reads begin and do not end.
  void close() {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_until_begun(int64_t reads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_begun >= reads; });
  }

  int64_t broken = -1;
  int64_t batch_bytes = 0;  // of reads without a lane
  int64_t num_begun = 0;    // read only while no read is under way, or after wait_until_begun
  int most_at_once = 0;

 private:
  int64_t n_;
  int64_t lane_length_;
  int64_t next_ = 0;
  size_t turn_ = 0;
  std::vector<int64_t> done_;  // by lane; touched by one read at a time
  std::vector<bool> ended_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  int at_once_ = 0;
};

std::vector<std::string> take_all(ReadAhead& reads) {
  std::vector<std::string> all;
  while (std::optional<FinishedRead> read = reads.take()) {
    REQUIRE(read->failure == nullptr);
    if (read->result.batch) {
      all.push_back(*read->result.position);
    }
  }
  return all;
}

TEST_CASE("reads are handed out in their order for any number of threads", "[data]") {
  std::vector<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    expected.push_back(std::to_string(i));
  }
  for (const int num_threads : {0, 1, 2, 4}) {
    for (const int depth : {1, 2, 7}) {
      CAPTURE(num_threads, depth);
      NumberPlan plan(200);
      ReadAhead reads(plan, {.num_threads = num_threads, .depth = depth});
      CHECK(take_all(reads) == expected);
      CHECK_FALSE(reads.take().has_value());
    }
  }
}

TEST_CASE("without threads nothing is read before it is asked for", "[data]") {
  NumberPlan plan(10);
  ReadAhead reads(plan, {.num_threads = 0, .depth = 5});
  CHECK(plan.num_begun == 0);
  CHECK(reads.take().has_value());
  CHECK(plan.num_begun == 1);
}

TEST_CASE("no more than the depth is read ahead", "[data]") {
  NumberPlan plan(1000);
  {
    ReadAhead reads(plan, {.num_threads = 2, .depth = 5});
    plan.wait_until_begun(5);
    CHECK(plan.num_begun == 5);
    for (int i = 0; i < 5; ++i) {
      CHECK(reads.take().has_value());
    }
    plan.wait_until_begun(8);  // at half the depth, if not before, there was more to do
  }
  // All threads are joined: what has begun has ended, and there were never more.
  CHECK(plan.num_begun <= 5 + 5);
  CHECK(plan.most_at_once <= 2);
}

TEST_CASE("small batches are read up to four times the depth ahead", "[data]") {
  struct Size {
    int64_t bytes;
    int64_t depth;  // of the reads, if the option is 5
  };
  for (const Size& size : {Size{1, 20}, {13'107, 20}, {20'000, 13}, {52'429, 5}, {1 << 20, 5}}) {
    CAPTURE(size.bytes);
    NumberPlan plan(1000);
    plan.batch_bytes = size.bytes;
    {
      ReadAhead reads(plan, {.num_threads = 2, .depth = 5});
      for (int64_t taken = 1; taken <= 40; ++taken) {
        REQUIRE(reads.take()->result.position == std::to_string(taken - 1));
      }
      plan.wait_until_begun(40 + size.depth / 2);  // from half the depth on, more are asked for
    }
    CHECK(plan.num_begun <= 40 + size.depth);
  }
  NumberPlan small(1000);
  small.batch_bytes = 1;
  {
    ReadAhead reads(small, {.num_threads = 2, .depth = 5});
    REQUIRE(reads.take().has_value());
    small.wait_until_begun(1 + 20);  // would wait forever if fewer were read ahead
  }
  CHECK(small.num_begun == 1 + 20);
  NumberPlan unasked(1000);
  unasked.batch_bytes = 1;
  ReadAhead reads(unasked, {.num_threads = 0, .depth = 5});
  REQUIRE(reads.take().has_value());
  CHECK(unasked.num_begun == 1);
}

TEST_CASE("the destructor returns while reads are waiting to be taken or made", "[data]") {
  NumberPlan full(1000);
  {
    ReadAhead reads(full, {.num_threads = 4, .depth = 8});
    full.wait_until_begun(8);
  }
  CHECK(full.num_begun == 8);

  NumberPlan without_grad(1000);
  { ReadAhead reads(without_grad, {.num_threads = 4, .depth = 4}); }

  NumberPlan slow(1000);
  slow.close();
  auto reads = std::make_unique<ReadAhead>(slow, ReadAheadOptions{.num_threads = 2, .depth = 8});
  slow.wait_until_begun(2);
  slow.open();
  reads.reset();
  CHECK(slow.num_begun <= 8);
}

TEST_CASE("reads run at once on several threads", "[data]") {
  NumberPlan plan(100);
  plan.close();
  ReadAhead reads(plan, {.num_threads = 3, .depth = 3});
  plan.wait_until_begun(3);  // would wait forever if one had to end first
  plan.open();
  CHECK(take_all(reads).size() == 100);
  CHECK(plan.most_at_once == 3);
}

TEST_CASE("a read that fails is handed out in its place, and is the last", "[data]") {
  for (const int num_threads : {0, 1, 4}) {
    CAPTURE(num_threads);
    NumberPlan plan(100);
    plan.broken = 7;
    ReadAhead reads(plan, {.num_threads = num_threads, .depth = 4});
    for (int i = 0; i < 7; ++i) {
      std::optional<FinishedRead> read = reads.take();
      REQUIRE(read.has_value());
      CHECK(read->failure == nullptr);
      CHECK(read->result.position == std::to_string(i));
    }
    std::optional<FinishedRead> failed = reads.take();
    REQUIRE(failed.has_value());
    REQUIRE(failed->failure != nullptr);
    CHECK_FALSE(failed->result.batch.has_value());
    CHECK_THROWS_WITH(std::rethrow_exception(failed->failure), "number 7");
    CHECK_FALSE(reads.take().has_value());
    CHECK_FALSE(reads.take().has_value());
  }
}

TEST_CASE("reads of one lane never overlap, and lanes take turns", "[data]") {
  std::vector<std::string> expected;
  for (int number = 0; number < 20; ++number) {
    for (int lane = 0; lane < 3; ++lane) {
      expected.push_back(std::to_string(lane) + ":" + std::to_string(number));
    }
  }
  for (const int num_threads : {0, 1, 2, 4}) {
    for (const int depth : {1, 4, 9}) {
      CAPTURE(num_threads, depth);
      NumberPlan plan(0, 3, 20);
      ReadAhead reads(plan, {.num_threads = num_threads, .depth = depth});
      // A lane that was read twice at once would have skipped or repeated numbers, and a lane that
      // was read after its end would have counted on.
      CHECK(take_all(reads) == expected);
      CHECK(plan.num_begun == 3 * 21);
    }
  }
}

}  // namespace
}  // namespace tenon
