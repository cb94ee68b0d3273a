// SPDX-License-Identifier: Apache-2.0
#include "host/model/program_visitor.hpp"

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

}  // namespace tenon
