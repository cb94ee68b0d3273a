// SPDX-License-Identifier: Apache-2.0
#include "host/model/pass_programs.hpp"

#include <cstddef>
#include <utility>

namespace tenon {

PassPrograms::PassPrograms(GraphFacts facts, std::vector<GroupFacts> groups, ProgramOptions options)
    : facts_(std::move(facts)), groups_(std::move(groups)), options_(std::move(options)) {}

const Program& PassPrograms::of(PassKind kind, Losses losses) {
  std::optional<Program>& program =
      programs_.at(static_cast<size_t>(kind)).at(static_cast<size_t>(losses));
  if (!program.has_value()) {
    ProgramOptions options = options_;
    options.chunks = losses == Losses::kInChunks;
    program.emplace(compile_program(kind, facts_, groups_, options));
  }
  return *program;
}

}  // namespace tenon
