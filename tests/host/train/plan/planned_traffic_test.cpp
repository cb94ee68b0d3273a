// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_traffic.hpp"

#include "host/train/plan/rank_plan.hpp"

#include <set>

#include "tests/host/train/plan/random_subject.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct SentByRules {
  int64_t gathered = 0;
  int64_t scattered = 0;
  int64_t reduced = 0;  // without buckets
};

// The rules of the stages as documented, by group, without a program: parameters that are not kept
// are gathered for a forward and, unless they stay, for a backward; gradients that are not kept are
// reduced in each microbatch.
SentByRules by_rules(const RandomPlan& plan) {
  const PlanSubject& subject = plan.subject;
  const PlannedPrograms programs(subject);
  SentByRules sent;
  for (const GroupLayout& layout : subject.groups) {
    const FlatSharing sharing = planned_sharing(layout, subject, plan.choice);
    const GroupUse use = use_of(programs.facts(), layout.blocks, subject.reshard_after_forward);
    const int64_t n = sharing.num_slices;
    const int64_t bytes = layout.flat_numel(n) / n * 4;
    const int64_t gathers = use.last_back.has_value() && !use.stays_after_forward ? 2 : 1;
    sent.gathered +=
        (n - 1) * bytes * (sharing.keeps_parameters ? 1 : gathers * subject.microbatches);
    if (layout.is_trainable) {
      sent.scattered += (n - 1) * bytes * (sharing.keeps_gradients ? 1 : subject.microbatches);
    }
    const bool is_bucketed = n == 1 && sharing.keeps_gradients;
    if (layout.is_trainable && !layout.is_unsharded && !is_bucketed) {
      const int64_t copies = plan.choice.replicate * layout.num_copies;
      sent.reduced += 2 * bytes * (copies - 1) / copies;
    }
  }
  return sent;
}

// Lets four tensor ranks have one, two or four copies of the parameters of each group.
void divide_among_tensor_ranks(RandomPlan& plan) {
  plan.choice.tensor = 4;
  uint32_t num_copies = 1;
  for (GroupLayout& layout : plan.subject.groups) {
    layout.num_copies = num_copies;
    num_copies = num_copies == 4 ? 1 : 2 * num_copies;
  }
}

}  // namespace

TEST_CASE("the bytes of a program are those of the rules, on random graphs", "[model]") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    RandomPlan plan = random_plan(seed);
    if (seed % 3 == 0) {
      divide_among_tensor_ranks(plan);
    }
    const PlanTraffic traffic = plan_rank(plan.subject, plan.choice, kRandomMachine).traffic;
    const SentByRules sent = by_rules(plan);
    CHECK(traffic.all_gather.sent == sent.gathered);
    CHECK(traffic.reduce_scatter.sent == sent.scattered);
    // Buckets add all gradients that each rank keeps whole, over all ranks that have them.
    double bucketed = 0;
    for (const GroupLayout& layout : plan.subject.groups) {
      const FlatSharing sharing = planned_sharing(layout, plan.subject, plan.choice);
      const bool is_bucketed = sharing.num_slices == 1 && sharing.keeps_gradients;
      const auto ranks =
          static_cast<double>(plan.choice.replicate * plan.choice.shard) * layout.num_copies;
      if (layout.is_trainable && is_bucketed) {
        bucketed += 8 * static_cast<double>(layout.flat_numel(1)) * (ranks - 1) / ranks;
      }
    }
    const auto in_buckets = static_cast<double>(traffic.all_reduce.sent - sent.reduced);
    CHECK(std::abs(in_buckets - bucketed) <=
          static_cast<double>(plan.subject.groups.size()));  // each bucket rounds down
  }
}

}  // namespace tenon
