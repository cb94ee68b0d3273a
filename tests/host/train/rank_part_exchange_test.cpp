// SPDX-License-Identifier: Apache-2.0
#include "host/train/rank_part_exchange.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <stdexcept>
#include <vector>

#include "tests/support/catch.hpp"  // after libtorch, which has a CHECK of its own
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// The message from one rank of the run to another.
at::Tensor message_of(uint32_t from, uint32_t to, int64_t number) {
  return at::full({1 + 100 * from + 10 * to + number}, 16 * from + to, at::kByte);
}

}  // namespace

TEST_CASE("ranks of a context group exchange messages of any size", "[train][multi-rank]") {
  // Two groups, whose ranks read different samples.
  constexpr uint32_t kContext = 3;
  std::vector<int> num_right(2 * kContext);
  run_ranks(
      {.replicate = 1, .shard = 2, .context = kContext}, 2 * kContext, [&](RankGroups& ranks) {
        RankPartExchange parts(ranks);
        const std::vector<uint32_t> members = ranks.role().ranks_of(RankSet::kContext);
        const uint32_t own = ranks.role().positions().index;
        for (int64_t number = 0; number < 7; ++number) {
          const auto sender = static_cast<uint32_t>(number) % kContext;
          if (sender != own) {
            const at::Tensor got = parts.receive(sender);
            num_right[ranks.role().rank()] +=
                got.equal(message_of(members[sender], ranks.role().rank(), number)) ? 1 : 0;
            continue;
          }
          std::vector<at::Tensor> messages(kContext);
          for (uint32_t to = 0; to < kContext; ++to) {
            if (to != own) {
              messages[to] = message_of(ranks.role().rank(), members[to], number);
            }
          }
          parts.send(messages);
        }
      });
  CHECK(num_right == std::vector<int>{4, 5, 5, 4, 5, 5});
}

TEST_CASE("all ranks report the error that a run reports", "[train]") {
  RankGroups alone;
  const RankPartExchange parts(alone);
  CHECK(parts.error_of(Error("data.bad_batch", "too short")).id() == "data.bad_batch");
  CHECK(parts.error_of(std::runtime_error("odd")).id() == "run.internal");
}

}  // namespace tenon
