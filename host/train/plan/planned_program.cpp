// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_program.hpp"

#include "host/model/compile_program.hpp"
#include "host/train/plan/planned_activations.hpp"
#include "host/train/plan/planned_groups.hpp"

#include <initializer_list>
#include <vector>

namespace tenon {
namespace {

GraphFacts graph_facts(const PlanSubject& subject) {
  const std::vector<int64_t> bytes = parameter_gradient_bytes(subject);
  return GraphFacts(subject.graph, [&bytes](uint32_t p) { return bytes[p] > 0; });
}

// A recipe that recomputes names its blocks; a plan that recomputes without a recipe's list
// recomputes all.
std::vector<bool> recomputed(const PlanSubject& subject, const PlanChoice& choice) {
  if (!choice.recomputes) {
    return {};
  }
  return subject.recomputable.empty() ? std::vector<bool>(subject.graph.blocks.size(), true)
                                      : subject.recomputable;
}

}  // namespace

PlannedPrograms::PlannedPrograms(const PlanSubject& subject)
    : subject_(subject), facts_(graph_facts(subject)) {}

std::vector<const Program*> PlannedPrograms::of(const PlanChoice& choice) {
  const std::vector<uint32_t>& owners = subject_.graph.stage_owners;
  std::vector<const Program*> programs(owners.size(), nullptr);
  for (uint32_t stage = 0; stage < owners.size(); ++stage) {
    if (owners[stage] != subject_.pipeline_rank()) {
      continue;
    }
    const std::pair key(key_of(choice), stage);
    auto known = programs_.find(key);
    if (known == programs_.end()) {
      known = programs_.emplace(key, compile(choice, stage)).first;
    }
    programs[stage] = &known->second;
  }
  return programs;
}

Program PlannedPrograms::compile(const PlanChoice& choice, uint32_t stage) const {
  std::vector<GroupFacts> groups;
  for (const GroupLayout& layout : subject_.groups) {
    groups.push_back(facts_of(layout, planned_sharing(layout, subject_, choice)));
  }
  return compile_program(PassKind::kTrain,
                         facts_,
                         groups,
                         {.recomputed = recomputed(subject_, choice),
                          .keeps_attention = choice.keeps_attention,
                          .tiles = choice.block_tile_share.has_value(),
                          .chunks = subject_.tile_share.has_value(),
                          .moves_activations = choice.moves_activations,
                          .kept = read_values(subject_),
                          .reshard_after_forward = subject_.reshard_after_forward,
                          .has_many_ranks = choice.ranks_of_stage() > 1,
                          .stage = stage});
}

// The compiler sees these facts of a choice, and of the number of slices only whether there are
// several.
uint32_t PlannedPrograms::key_of(const PlanChoice& choice) const {
  const FlatSharing sharing = planned_sharing({}, subject_, choice);
  uint32_t key = 0;
  for (const bool fact : {choice.recomputes,
                          choice.keeps_attention,
                          choice.block_tile_share.has_value(),
                          choice.moves_activations,
                          choice.ranks_of_stage() > 1,
                          choice.shard > 1,
                          sharing.keeps_parameters,
                          sharing.keeps_gradients}) {
    key = 2 * key + (fact ? 1 : 0);
  }
  return key;
}

// The graph of a recipe marks them.
std::vector<uint32_t> read_values(const PlanSubject& subject) {
  std::vector<uint32_t> read;
  for (uint32_t v = 0; v < subject.graph.values.size(); ++v) {
    if (subject.graph.values[v].is_read) {
      read.push_back(v);
    }
  }
  for (const PlannedLoss& loss : subject.losses) {
    read.insert(read.end(), loss.values.begin(), loss.values.end());
  }
  return read;
}

}  // namespace tenon
