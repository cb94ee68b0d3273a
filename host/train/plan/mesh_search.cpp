// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/mesh_search.hpp"

#include <compare>
#include <tuple>
#include <vector>

namespace tenon {
namespace {

std::vector<PlanChoice> all_choices(const PlanChoice& given, bool has_host) {
  const int64_t ranks = given.replicate * given.shard;
  std::vector<PlanChoice> choices;
  for (int64_t shard = 1; shard <= ranks; ++shard) {
    if (ranks % shard != 0) {
      continue;
    }
    for (const int stage : {1, 2, 3}) {
      if (shard == 1 && stage != given.stage) {
        continue;  // nothing is sharded: all stages are the same
      }
      for (const bool recomputes : {false, true}) {
        for (const bool offloads : {false, true}) {
          // Offload shards everything, as stage 3 does: other stages would be duplicates.
          if (!offloads || (has_host && (stage == 3 || shard == 1))) {
            PlanChoice choice = given;
            choice.replicate = ranks / shard;
            choice.shard = shard;
            choice.stage = stage;
            choice.recomputes = recomputes;
            choice.offloads = offloads;
            choice.keeps_attention = recomputes && given.keeps_attention;
            choices.push_back(choice);
          }
        }
      }
    }
  }
  return choices;
}

// Returns the number of settings in which two choices differ.
int distance(const PlanChoice& a, const PlanChoice& b) {
  return (a.shard != b.shard ? 1 : 0) + (a.stage != b.stage ? 1 : 0) +
         (a.recomputes != b.recomputes ? 1 : 0) + (a.offloads != b.offloads ? 1 : 0);
}

// Returns the plan with the smallest `key` among those that satisfy `fits`, or nothing.
template <class Fits, class Key>
std::optional<RankPlan> least(const PlanSubject& subject,
                              const PlanChoice& given,
                              const PlanMachine& machine,
                              Fits fits,
                              Key key) {
  RankPlanner planner(subject, machine);
  std::optional<RankPlan> best;
  for (const PlanChoice& choice : all_choices(given, subject.has_host)) {
    RankPlan plan = planner.plan(choice);
    if (fits(plan) && (!best.has_value() || key(plan) < key(*best))) {
      best = std::move(plan);
    }
  }
  return best;
}

}  // namespace

std::optional<RankPlan> cheapest_that_fits(const PlanSubject& subject,
                                           const PlanChoice& given,
                                           const PlanMachine& machine,
                                           int64_t memory) {
  return least(
      subject,
      given,
      machine,
      [memory](const RankPlan& plan) { return plan.memory.sum() <= memory; },
      [&given](const RankPlan& plan) {
        return std::tuple(plan.time.step, distance(plan.choice, given), plan.memory.sum());
      });
}

RankPlan smallest_plan(const PlanSubject& subject,
                       const PlanChoice& given,
                       const PlanMachine& machine) {
  return *least(
      subject,
      given,
      machine,
      [](const RankPlan&) { return true; },
      [&given](const RankPlan& plan) {
        return std::tuple(plan.memory.sum(), distance(plan.choice, given), plan.time.step);
      });
}

}  // namespace tenon
