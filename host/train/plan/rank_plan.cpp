// SPDX-License-Identifier: Apache-2.0
//
// Source: stages: Rajbhandari et al., ZeRO (2020), arXiv:1910.02054.
#include "host/train/plan/rank_plan.hpp"

#include "host/plugin/parameter_average_proxy.hpp"
#include "host/train/plan/planned_groups.hpp"
#include "host/train/plan/planned_memory.hpp"
#include "host/train/plan/planned_pipeline.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Adds a tensor that lives as long as the run to a kind of memory.
void add(const PlanSubject& subject, int64_t bytes, int64_t& kind, int64_t& rounding) {
  kind += bytes;
  rounding += subject.rounding_of(bytes);
}

// What a rank keeps of a group.
void add_group(const PlanSubject& subject,
               const PlanChoice& choice,
               const GroupLayout& layout,
               const PlannedGroup& group,
               PlanMemory& memory) {
  const bool is_away = is_on_host(subject, choice) && !group.facts.keeps_parameters;
  const bool has_copy = layout.stored != layout.seen || !group.facts.keeps_parameters;
  const int64_t slice = layout.flat_numel(group.facts.num_slices) / group.facts.num_slices;
  const int64_t stored = slice * size_of(layout.stored);
  int64_t unused = 0;  // the host's memory is not compared with that of a device
  int64_t& rounding = is_away ? unused : memory.rounding;
  add(subject, has_copy ? stored : 0, is_away ? memory.host : memory.parameters, rounding);
  add(subject,
      group.facts.keeps_parameters ? group.whole_seen : 0,
      memory.parameters,
      memory.rounding);
  if (!layout.is_trainable) {
    return;
  }
  const int64_t gradients = group.facts.keeps_gradients ? group.whole_grad : stored;
  const bool is_in_bucket = is_summed(group, choice);
  add(subject,
      subject.frees_gradients ? 0 : gradients,
      is_away ? memory.host : memory.gradients,
      is_in_bucket ? unused : rounding);  // a bucket is one large tensor
  (is_away ? memory.host : memory.optimizer) +=
      optimizer_bytes(layout, group.facts.num_slices, subject.optimizer_bytes);
  rounding += optimizer_rounding(layout, group.facts.num_slices, subject);
  add(subject,
      subject.has_averages ? slice * size_of(average_dtype(layout.stored)) : 0,
      is_away ? memory.host : memory.averages,
      rounding);
}

// Returns the number of parameter elements that a rank stores.
int64_t elements_of(const PlanSubject& subject, const std::vector<PlannedGroup>& groups) {
  int64_t elements = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupLayout& layout = subject.groups[g];
    const int64_t slices = groups[g].facts.num_slices;
    elements += layout.is_elsewhere ? 0 : layout.flat_numel(slices) / slices;
  }
  return elements;
}

PlanMemory memory_of(const PlannedPass& pass) {
  const PlanSubject& subject = pass.subject;
  PlanMemory memory;
  memory.batches = subject.batch_bytes;
  memory.buffers = subject.buffer_bytes;
  if (pass.choice.num_ranks() > 1) {  // in memory of the host
    (subject.has_host ? memory.host : memory.exchange) += subject.exchange_bytes;
  }
  for (size_t g = 0; g < pass.groups.size(); ++g) {
    if (!subject.groups[g].is_elsewhere) {
      add_group(subject, pass.choice, subject.groups[g], pass.groups[g], memory);
    }
  }
  PlannedPeak peak = planned_peak(pass);
  memory.gathered = peak.gathered;
  memory.activations = peak.activations;
  memory.rounding += peak.rounding;
  memory.moment = std::move(peak.moment);
  return memory;
}

}  // namespace

RankPlanner::RankPlanner(const PlanSubject& subject, const PlanMachine& machine)
    : subject_(subject), machine_(machine) {
  if (!subject.pipeline.has_value()) {
    programs_.emplace_back(subject);
    return;
  }
  for (uint32_t rank = 0; rank < subject.pipeline->schedule.rows.size(); ++rank) {
    programs_.emplace_back(seen_.emplace_back(seen_by(subject, rank)));
  }
}

RankPlan RankPlanner::plan(const PlanChoice& choice) {
  if (subject_.pipeline.has_value()) {
    return plan_pipeline(choice);
  }
  PlannedPrograms& programs = programs_.front();
  const std::vector<PlannedGroup> groups = planned_groups(subject_, choice, programs.facts());
  const PlannedPass pass = programs.pass(choice, groups);
  const PlannedLinks links(choice.copies(choice.tensor), choice.shard, machine_);
  return {.choice = choice,
          .memory = memory_of(pass),
          .traffic = planned_traffic(pass, links),
          .time = planned_time(pass, links, machine_)};
}

RankPlan RankPlanner::plan_pipeline(const PlanChoice& choice) {
  RankPlan plan{.choice = choice, .memory = {}, .traffic = {}, .time = {}};
  std::vector<PlannedStageTimes> times;
  for (uint32_t rank = 0; rank < seen_.size(); ++rank) {
    const PlanSubject& subject = seen_[rank];
    PlannedPrograms& programs = programs_[rank];
    const std::vector<PlannedGroup> groups = planned_groups(subject, choice, programs.facts());
    const PlannedPass pass = programs.pass(choice, groups);
    const PlannedLinks links = links_of_stage(choice, rank, machine_);
    plan.pipeline.push_back({.stages = pass.schedule().stages(),
                             .elements = elements_of(subject, groups),
                             .memory = memory_of(pass),
                             .traffic = planned_traffic(pass, links)});
    times.push_back(planned_stage_times(pass, links, machine_));
    if (plan.pipeline.back().memory.sum() > plan.pipeline[plan.pipeline_rank].memory.sum()) {
      plan.pipeline_rank = rank;
    }
  }
  const ScheduleSimulation simulation =
      simulated_step(seen_.front(), programs_.front().facts(), choice, machine_, times);
  double step = 0;
  double flops = 0;
  for (uint32_t rank = 0; rank < seen_.size(); ++rank) {
    const SimulatedRank& simulated = simulation.ranks[rank];
    plan.pipeline[rank].most_held = simulated.most_held;
    plan.pipeline[rank].busy = simulated.busy;
    plan.pipeline[rank].idle = simulated.idle_share();
    step = std::max(step, simulated.end + times[rank].after);
    flops += times[rank].rank.flops / static_cast<double>(seen_.size());
  }
  plan.time = times[plan.pipeline_rank].rank;
  plan.time.idle = std::max(0.0, step - plan.time.step);
  plan.time.step = step;
  plan.time.flops = flops;
  plan.memory = plan.pipeline[plan.pipeline_rank].memory;
  plan.traffic = plan.pipeline[plan.pipeline_rank].traffic;
  return plan;
}

RankPlan plan_rank(const PlanSubject& subject,
                   const PlanChoice& choice,
                   const PlanMachine& machine) {
  return RankPlanner(subject, machine).plan(choice);
}

}  // namespace tenon
