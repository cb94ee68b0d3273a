// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/parallel_service.hpp"

#include "host/error/status.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Piece = std::pair<size_t, size_t>;

// The pieces of one loop, sorted.
std::vector<Piece> pieces_of(size_t n, size_t grain) {
  struct Seen {
    std::mutex mutex;
    std::vector<Piece> pieces;
  } seen;
  const auto body = [](void* context, size_t begin, size_t end) -> tenon_status* {
    auto& into = *static_cast<Seen*>(context);
    const std::lock_guard lock(into.mutex);
    into.pieces.emplace_back(begin, end);
    return nullptr;
  };
  CHECK(take(parallel_service()->run(nullptr, n, grain, body, &seen)).ok());
  std::ranges::sort(seen.pieces);
  return seen.pieces;
}

// Sets the number of compute threads for the life of a test.
class Threads {
 public:
  explicit Threads(int n) : before_(at::get_num_threads()) { at::set_num_threads(n); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_;
};

TEST_CASE("a parallel loop covers its range once, in pieces of at least the grain", "[tensor]") {
  const Threads threads(3);
  CHECK(parallel_service()->num_threads(nullptr) == 3);
  for (const size_t n : {1, 2, 7, 100, 1001}) {
    for (const size_t grain : {0, 1, 9, 34, 5000}) {
      const std::vector<Piece> pieces = pieces_of(n, grain);
      REQUIRE_FALSE(pieces.empty());
      CHECK(pieces.size() <= 3);
      CHECK(pieces.front().first == 0);
      CHECK(pieces.back().second == n);
      for (size_t i = 0; i < pieces.size(); ++i) {
        CHECK((pieces.size() == 1 || pieces[i].second - pieces[i].first >= grain));
        CHECK((i == 0 || pieces[i].first == pieces[i - 1].second));
      }
    }
  }
  CHECK(pieces_of(100, 1).size() == 3);
  CHECK(pieces_of(0, 1).empty());
}

TEST_CASE("the pieces of a parallel loop are the same each time", "[tensor]") {
  const Threads threads(2);
  CHECK(pieces_of(1000, 10) == pieces_of(1000, 10));
  CHECK(pieces_of(10, 9) == std::vector<Piece>{{0, 10}});
}

#ifdef __GNUC__
#ifndef __clang__
TEST_CASE("a parallel loop runs on more than one thread", "[tensor]") {
  const Threads threads(2);
  // Each piece waits for the other: run one after the other, this would not end.
  std::atomic<int> arrived = 0;
  const auto body = [](void* context, size_t, size_t) -> tenon_status* {
    auto& count = *static_cast<std::atomic<int>*>(context);
    ++count;
    while (count < 2) {
      std::this_thread::yield();
    }
    return nullptr;
  };
  CHECK(take(parallel_service()->run(nullptr, 2, 1, body, &arrived)).ok());
}
#endif
#endif

TEST_CASE("of several failures a parallel loop returns that of the lowest piece", "[tensor]") {
  const Threads threads(3);
  const auto body = [](void*, size_t begin, size_t) -> tenon_status* {
    return begin == 0 ? nullptr
                      : make_status(nullptr, TENON_IO, "a.b", std::to_string(begin).c_str());
  };
  for (int i = 0; i < 20; ++i) {
    CHECK(take(parallel_service()->run(nullptr, 300, 1, body, nullptr)).message == "100");
  }
}

TEST_CASE("an exception in the body of a parallel loop becomes a status", "[tensor]") {
  const Threads threads(2);
  const auto body = [](void*, size_t, size_t) -> tenon_status* { throw std::runtime_error("no"); };
  const StatusText text = take(parallel_service()->run(nullptr, 100, 1, body, nullptr));
  CHECK(text.code == TENON_INTERNAL);
  CHECK(text.message == "no");
}

TEST_CASE("a parallel loop inside another runs in line", "[tensor]") {
  const Threads threads(2);
  std::atomic<size_t> sum = 0;
  static constexpr auto kInner = [](void* context, size_t begin, size_t end) -> tenon_status* {
    *static_cast<std::atomic<size_t>*>(context) += end - begin;
    return nullptr;
  };
  const auto outer = [](void* context, size_t begin, size_t end) -> tenon_status* {
    for (size_t i = begin; i < end; ++i) {
      if (tenon_status* const status = parallel_service()->run(nullptr, 10, 1, kInner, context)) {
        return status;
      }
    }
    return nullptr;
  };
  CHECK(take(parallel_service()->run(nullptr, 4, 1, outer, &sum)).ok());
  CHECK(sum == 40);
}

TEST_CASE("a parallel loop without a body is refused", "[tensor]") {
  CHECK(take(parallel_service()->run(nullptr, 4, 1, nullptr, nullptr)).code == TENON_INVALID);
}

}  // namespace
}  // namespace tenon
