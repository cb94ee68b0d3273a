// SPDX-License-Identifier: Apache-2.0
//
// The programs of the passes of a run, which follow from its graph and its recipe alone: a plan has
// them before anything is allocated, and the runner runs them.
// Threads: any, one at a time.
#pragma once

#include "host/model/compile_program.hpp"
#include "host/model/graph_facts.hpp"
#include "host/model/group_facts.hpp"
#include "host/model/program.hpp"

#include <array>
#include <optional>
#include <vector>

namespace tenon {

class PassPrograms {
 public:
  // How the losses of a pass run. kInChunks requires tails (GraphFacts::tails) and a loss_chunk.
  enum class Losses { kWhole, kInChunks };

  // `groups` are those of the rank, by flat group. `options.chunks` and `options.stage` have no
  // effect.
  PassPrograms(GraphFacts facts, std::vector<GroupFacts> groups, ProgramOptions options);

  const GraphFacts& facts() const { return facts_; }
  const std::vector<GroupFacts>& groups() const { return groups_; }
  // Returns the program of a stage in a pass of kind kTrain, kEvaluate or kReplay, compiled at
  // first use. Losses have an effect on the last stage only.
  const Program& of(PassKind kind, Losses losses, uint32_t stage = 0);

 private:
  const GraphFacts facts_;
  const std::vector<GroupFacts> groups_;
  const ProgramOptions options_;
  using OfLosses = std::array<std::optional<Program>, 2>;
  std::vector<std::array<OfLosses, 3>> programs_;  // by stage, then by kind
};

}  // namespace tenon
