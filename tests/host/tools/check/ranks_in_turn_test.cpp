// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/ranks_in_turn.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"  // after libtorch, which has a CHECK of its own

namespace tenon {
namespace {

// Counts the ranks that run, which must be one.
class OneAtATime {
 public:
  void enter() { most_ = std::max(most_.load(), ++running_); }
  void leave() { --running_; }
  int most() const { return most_; }

 private:
  std::atomic<int> running_ = 0;
  std::atomic<int> most_ = 0;
};

std::vector<float> floats_of(const at::Tensor& tensor) {
  const auto* const data = tensor.const_data_ptr<float>();
  return {data, data + tensor.numel()};
}

}  // namespace

TEST_CASE("ranks in turn exchange what their collectives say", "[check]") {
  constexpr uint32_t kSize = 3;
  std::vector<std::vector<float>> sums(kSize);
  std::vector<std::vector<float>> received(kSize);
  std::vector<std::vector<float>> gathered(kSize);
  std::vector<std::vector<float>> scattered(kSize);
  std::vector<std::vector<float>> copied(kSize);
  std::vector<int64_t> largest(kSize);
  const std::string disagreement = run_ranks_in_turn(kSize, [&](Group& ranks) {
    const uint32_t r = ranks.rank();
    at::Tensor sum = at::full({2}, static_cast<double>(r + 1), at::kFloat);
    ranks.all_reduce(sum, "sum")->wait();
    sums[r] = floats_of(sum);
    // Rank r sends r + 1 elements to each rank: 10 r + the rank that receives them.
    std::vector<at::Tensor> pieces;
    for (uint32_t to = 0; to < kSize; ++to) {
      pieces.push_back(at::full({r + 1}, 10.0 * r + to, at::kFloat));
    }
    const at::Tensor send = at::cat(pieces);
    const std::vector<int64_t> send_counts(kSize, r + 1);
    at::Tensor receive = at::zeros({6}, at::kFloat);
    ranks.all_to_all(receive, std::vector<int64_t>{1, 2, 3}, send, send_counts, "pieces")->wait();
    received[r] = floats_of(receive);
    at::Tensor whole = at::zeros({3}, at::kFloat);
    ranks.all_gather(whole, at::full({1}, static_cast<double>(r), at::kFloat), "all")->wait();
    gathered[r] = floats_of(whole);
    at::Tensor part = at::zeros({1}, at::kFloat);
    ranks.reduce_scatter(part, whole, "parts")->wait();
    scattered[r] = floats_of(part);
    ranks.broadcast(part, 2, "of the last")->wait();
    copied[r] = floats_of(part);
    largest[r] = static_cast<int64_t>(r) * 7;
    ranks.all_reduce(std::span(&largest[r], 1), Reduce::kMax, "largest");
  });
  CHECK(disagreement.empty());
  for (uint32_t r = 0; r < kSize; ++r) {
    INFO("rank " << r);
    const auto f = static_cast<float>(r);
    CHECK(sums[r] == std::vector<float>{6, 6});
    CHECK(received[r] == std::vector<float>{f, 10 + f, 10 + f, 20 + f, 20 + f, 20 + f});
    CHECK(gathered[r] == std::vector<float>{0, 1, 2});
    CHECK(scattered[r] == std::vector<float>{3 * f});
    CHECK(copied[r] == std::vector<float>{6});
    CHECK(largest[r] == 14);
  }
}

TEST_CASE("of ranks in turn, one runs at a time", "[check]") {
  OneAtATime running;
  const std::string disagreement = run_ranks_in_turn(4, [&](Group& ranks) {
    at::Tensor x = at::ones({1});
    for (int i = 0; i < 50; ++i) {
      running.enter();
      at::Tensor work = at::ones({64}).cumsum(0);
      running.leave();
      ranks.all_reduce(x, "x")->wait();
    }
  });
  CHECK(disagreement.empty());
  CHECK(running.most() == 1);
}

TEST_CASE("ranks in turn that make different calls end, with what they send", "[check]") {
  const auto send = [](Group& ranks, const std::string& what) {
    at::Tensor x = at::ones({1});
    ranks.all_reduce(x, what)->wait();
  };
  CHECK(run_ranks_in_turn(2, [&](Group& ranks) {
          send(ranks, ranks.rank() == 0 ? "keys" : "heads");
        }) == "rank 0 sends \"keys\", rank 1 \"heads\"");
  CHECK(run_ranks_in_turn(2, [&](Group& ranks) {
          send(ranks, "keys");
          if (ranks.rank() == 1) {
            send(ranks, "more");
          }
        }) == "rank 1 sends \"more\", rank 0 does not");
  // Counts that do not match.
  CHECK_THAT(
      run_ranks_in_turn(2,
                        [](Group& ranks) {
                          const std::vector<int64_t> counts(2, ranks.rank() + 1);
                          at::Tensor receive = at::zeros({2 * ranks.rank() + 2});
                          ranks.all_to_all(receive, counts, receive, counts, "heads")->wait();
                        }),
      contains_text("\"heads\""));
}

TEST_CASE("the first error of ranks in turn ends the others, and is thrown", "[check]") {
  for (const uint32_t failing : {0U, 1U}) {
    INFO("rank " << failing);
    std::atomic<int> num_done = 0;
    const auto run = [&] {
      run_ranks_in_turn(2, [&](Group& ranks) {
        at::Tensor x = at::ones({1});
        ranks.all_reduce(x, "x")->wait();
        if (ranks.rank() == failing) {
          throw std::runtime_error("the block fails");
        }
        ranks.all_reduce(x, "x")->wait();
        ++num_done;
      });
    };
    CHECK_THROWS_WITH(run(), "the block fails");
    CHECK(num_done == 0);
  }
}

}  // namespace tenon
