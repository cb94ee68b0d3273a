// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/agreement.hpp"

#include <algorithm>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Pretends to be one of many: the others' votes are given in advance.
class FakeMany final : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world_size() const override { return 3; }
  void all_reduce(std::span<int64_t> values, Reduce reduce) override {
    ++num_calls;
    for (size_t i = 0; i < values.size() && i < others.size(); ++i) {
      values[i] = reduce == Reduce::kMax ? std::max(values[i], others[i]) : values[i] + others[i];
    }
  }
  void all_reduce(std::span<double>, Reduce) override {}

  std::vector<int64_t> others;
  int num_calls = 0;
};

}  // namespace

TEST_CASE("a vote of any rank counts for all", "[distributed]") {
  FakeMany many;
  many.others.assign(static_cast<size_t>(Vote::kNumVotes), 0);
  many.others[static_cast<size_t>(Vote::kStop)] = 1;
  Agreement agreement(many);
  agreement.vote(Vote::kSkipUpdate);
  const Decision& decision = agreement.settle_now();
  CHECK(decision.has(Vote::kStop));
  CHECK(decision.has(Vote::kSkipUpdate));
  CHECK_FALSE(decision.has(Vote::kOutOfData));
  CHECK(many.num_calls == 1);
}

TEST_CASE("votes after the start travel with the next decision", "[distributed]") {
  SingleRank alone;
  Agreement agreement(alone);
  agreement.vote(Vote::kEvaluate);
  agreement.start();
  agreement.vote(Vote::kStop);
  CHECK(agreement.settle().has(Vote::kEvaluate));
  CHECK_FALSE(agreement.settle().has(Vote::kStop));
  CHECK(agreement.settle_now().has(Vote::kStop));
  CHECK_FALSE(agreement.settle_now().has(Vote::kStop));
}

}  // namespace tenon
