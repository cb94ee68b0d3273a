// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_program.hpp"

#include "host/model/compile_program.hpp"
#include "host/model/program_text.hpp"
#include "host/text/formatted.hpp"
#include "host/train/plan/planned_groups.hpp"

#include <vector>

namespace tenon {
namespace {

// A recipe that recomputes names its blocks; a plan that recomputes without a recipe's list
// recomputes all.
std::vector<bool> recomputed(const PlanSubject& subject, const PlanChoice& choice) {
  if (!choice.recomputes) {
    return {};
  }
  return subject.recomputable.empty() ? std::vector<bool>(subject.graph.blocks.size(), true)
                                      : subject.recomputable;
}

// The graph of a plan marks the values that losses and metrics read.
std::vector<uint32_t> read_values(const ModelGraph& graph) {
  std::vector<uint32_t> read;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].is_read) {
      read.push_back(v);
    }
  }
  return read;
}

}  // namespace

std::string program_text(const RecipePlan& plan) {
  const PlanSubject& subject = plan.subject;
  const PlanChoice& choice = plan.plan.choice;
  std::vector<bool> is_trainable(subject.graph.parameters.size(), false);
  std::vector<GroupFacts> groups;
  ProgramNames names{.graph = subject.graph, .groups = {}};
  for (const GroupLayout& layout : subject.groups) {
    groups.push_back(facts_of(layout, planned_sharing(layout, subject, choice)));
    names.groups.push_back(layout.name);
    for (const uint32_t p : layout.parameters) {
      is_trainable[p] = layout.is_trainable;
    }
  }
  const GraphFacts facts(subject.graph, [&](uint32_t p) { return bool{is_trainable[p]}; });
  const Program program = compile_program(PassKind::kTrain,
                                          facts,
                                          groups,
                                          {.recomputed = recomputed(subject, choice),
                                           .keeps_attention = choice.keeps_attention,
                                           .tiles = choice.block_tile_share.has_value(),
                                           .chunks = subject.tile_share.has_value(),
                                           .moves_activations = choice.moves_activations,
                                           .kept = read_values(subject.graph),
                                           .reshard_after_forward = subject.reshard_after_forward,
                                           .has_many_ranks = choice.replicate * choice.shard > 1});
  const std::string mesh = formatted("ranks {}, replicate {}, shard {}, stage {}",
                                     plan.request.ranks,
                                     choice.replicate,
                                     choice.shard,
                                     choice.stage);
  return plan.recipe + ": what each rank runs for a microbatch (" + mesh + ")\n" +
         text_of(program, names);
}

}  // namespace tenon
