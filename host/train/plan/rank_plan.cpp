// SPDX-License-Identifier: Apache-2.0
//
// Source: stages: Rajbhandari et al., ZeRO (2020), arXiv:1910.02054.
#include "host/train/plan/rank_plan.hpp"

#include "host/plugin/parameter_average_proxy.hpp"
#include "host/train/plan/planned_groups.hpp"
#include "host/train/plan/planned_memory.hpp"

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

}  // namespace

RankPlan RankPlanner::plan(const PlanChoice& choice) {
  const std::vector<PlannedGroup> groups = planned_groups(subject_, choice, programs_.facts());
  const PlannedPass pass{.subject = subject_,
                         .choice = choice,
                         .facts = programs_.facts(),
                         .program = programs_.of(choice),
                         .groups = groups};
  RankPlan plan{.choice = choice, .memory = {}, .traffic = {}, .time = {}};
  PlanMemory& memory = plan.memory;
  memory.batches = subject_.batch_bytes * subject_.batches_held;
  memory.buffers = subject_.buffer_bytes;
  if (choice.num_ranks() > 1) {  // in memory of the host
    (subject_.has_host ? memory.host : memory.exchange) += subject_.exchange_bytes;
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!subject_.groups[g].is_elsewhere) {
      add_group(subject_, choice, subject_.groups[g], groups[g], memory);
    }
  }
  PlannedPeak peak = planned_peak(pass);
  memory.gathered = peak.gathered;
  memory.activations = peak.activations;
  memory.rounding += peak.rounding;
  memory.moment = std::move(peak.moment);
  const PlannedLinks links(choice.copies(choice.tensor), choice.shard, machine_);
  plan.traffic = planned_traffic(pass, links);
  plan.time = planned_time(pass, links, machine_);
  return plan;
}

RankPlan plan_rank(const PlanSubject& subject,
                   const PlanChoice& choice,
                   const PlanMachine& machine) {
  return RankPlanner(subject, machine).plan(choice);
}

}  // namespace tenon
