// SPDX-License-Identifier: Apache-2.0
#include "host/model/program_visitor.hpp"

#include "host/model/compile_program.hpp"

#include <utility>

namespace tenon {
namespace {

bool holds(const Instruction& instruction,
           const PassConditions& conditions,
           ProgramVisitor& visitor) {
  switch (instruction.when) {
    case When::kAlways:
      return true;
    case When::kIfAsked:
      return visitor.is_asked(instruction.block);
    case When::kInLastMicrobatch:
      return conditions.is_last_microbatch;
    case When::kInFirstChunk:
      return conditions.is_first_chunk;
    case When::kInLastChunk:
      return conditions.is_last_chunk;
  }
  return true;
}

class ForwardCount final : public ProgramVisitor {
 public:
  explicit ForwardCount(uint32_t num_blocks) : counts(num_blocks, 0) {}
  void visit(const Instruction& instruction) override {
    const bool repeats_tiles = instruction.op == Op::kBackward && instruction.has(kInTiles);
    if (instruction.op == Op::kForward || repeats_tiles) {
      ++counts[instruction.block];
    }
  }
  std::vector<uint32_t> counts;  // by block
};

}  // namespace

void interpret(const Program& program,
               Section section,
               const PassConditions& conditions,
               ProgramVisitor& visitor) {
  bool runs_blocks = conditions.has_samples;
  uint32_t repeated = kNoIndex;  // where the forwards of the unit that was made again last begin
  for (const Instruction& instruction : program.section(section)) {
    if (!runs_blocks && !is_collective(instruction.op)) {
      continue;
    }
    if (!holds(instruction, conditions, visitor)) {
      continue;
    }
    if (instruction.op == Op::kRecompute) {
      if (repeated == instruction.first) {
        continue;
      }
      repeated = instruction.first;
    }
    visitor.visit(instruction);
    if (instruction.op == Op::kRecompute) {
      for (const Instruction& forward : program.again(instruction)) {
        visitor.visit(forward);
      }
    } else if (instruction.op == Op::kSeen) {
      runs_blocks = visitor.goes_on();
    }
  }
}

std::vector<uint32_t> count_forwards(const Program& program, uint32_t num_blocks) {
  ForwardCount count(num_blocks);
  for (size_t s = 0; s < kNumSections; ++s) {
    interpret(program, static_cast<Section>(s), {}, count);
  }
  return std::move(count.counts);
}

std::vector<uint32_t> forward_order(const GraphFacts& graph) {
  std::vector<uint32_t> order;
  for (uint32_t stage = 0; stage < graph.graph().stage_owners.size(); ++stage) {
    const Program program = compile_program(PassKind::kEvaluate, graph, {}, {.stage = stage});
    for (const Instruction& instruction : program.section(Section::kForward)) {
      if (instruction.op == Op::kForward) {
        order.push_back(instruction.block);
      }
    }
  }
  return order;
}

}  // namespace tenon
