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
      sent.reduced += 2 * bytes * (plan.choice.replicate - 1) / plan.choice.replicate;
    }
  }
  return sent;
}

}  // namespace

TEST_CASE("the bytes of a program are those of the rules, on random graphs", "[model]") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    const RandomPlan plan = random_plan(seed);
    const PlanTraffic traffic = plan_rank(plan.subject, plan.choice, kRandomMachine).traffic;
    const SentByRules sent = by_rules(plan);
    CHECK(traffic.all_gather.sent == sent.gathered);
    CHECK(traffic.reduce_scatter.sent == sent.scattered);
    // Buckets add all gradients that each rank keeps whole, over all ranks.
    int64_t whole = 0;
    for (const GroupLayout& layout : plan.subject.groups) {
      const FlatSharing sharing = planned_sharing(layout, plan.subject, plan.choice);
      const bool is_bucketed = sharing.num_slices == 1 && sharing.keeps_gradients;
      whole += layout.is_trainable && is_bucketed ? layout.flat_numel(1) * 4 : 0;
    }
    const int64_t ranks = plan.choice.replicate * plan.choice.shard;
    const int64_t in_buckets = traffic.all_reduce.sent - sent.reduced;
    CHECK(std::abs(in_buckets - 2 * whole * (ranks - 1) / ranks) <=
          static_cast<int64_t>(plan.subject.groups.size()));  // each bucket rounds down
  }
}

}  // namespace tenon
