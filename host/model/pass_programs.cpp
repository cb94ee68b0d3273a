// SPDX-License-Identifier: Apache-2.0
#include "host/model/pass_programs.hpp"

#include <cstddef>
#include <utility>

namespace tenon {

PassPrograms::PassPrograms(GraphFacts facts, std::vector<GroupFacts> groups, ProgramOptions options)
    : facts_(std::move(facts)),
      groups_(std::move(groups)),
      options_(std::move(options)),
      programs_(facts_.graph().stage_owners.size()) {}

const Program& PassPrograms::of(PassKind kind, Losses losses, uint32_t stage) {
  const bool has_losses = stage + 1 == programs_.size();
  std::optional<Program>& program = programs_.at(stage)
                                        .at(static_cast<size_t>(kind))
                                        .at(has_losses ? static_cast<size_t>(losses) : 0);
  if (!program.has_value()) {
    ProgramOptions options = options_;
    options.chunks = losses == Losses::kInChunks && has_losses;
    options.stage = stage;
    program.emplace(compile_program(kind, facts_, groups_, options));
  }
  return *program;
}

}  // namespace tenon
