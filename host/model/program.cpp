// SPDX-License-Identifier: Apache-2.0
#include "host/model/program.hpp"

#include "host/error/assert.hpp"

#include <utility>

namespace tenon {

bool is_collective(Op op) {
  return op <= Op::kRowGradients;
}

const char* name_of(Op op) {
  constexpr std::array<const char*, kNumOps> kNames = {"gather",
                                                       "await",
                                                       "free",
                                                       "reduce",
                                                       "update",
                                                       "lookup",
                                                       "rows",
                                                       "row gradients",
                                                       "forward",
                                                       "keep",
                                                       "recompute",
                                                       "backward",
                                                       "add gradients",
                                                       "put pieces",
                                                       "seen",
                                                       "drop",
                                                       "move away",
                                                       "bring back",
                                                       "loss",
                                                       "loss backward",
                                                       "receive",
                                                       "send",
                                                       "receive gradients",
                                                       "send gradients"};
  return kNames[static_cast<size_t>(op)];
}

Program::Program(PassKind kind,
                 uint32_t stage,
                 bool has_chunks,
                 std::span<const std::vector<Draft>, kNumSections> sections,
                 std::vector<Instruction> again)
    : kind_(kind), stage_(stage), has_chunks_(has_chunks), again_(std::move(again)) {
  for (size_t s = 0; s < kNumSections; ++s) {
    for (const Draft& draft : sections[s]) {
      instructions_.push_back(draft.instruction);
      if (draft.instruction.op != Op::kRecompute) {
        instructions_.back().first = static_cast<uint32_t>(values_.size());
        instructions_.back().count = static_cast<uint32_t>(draft.values.size());
        values_.insert(values_.end(), draft.values.begin(), draft.values.end());
      }
    }
    ends_[s] = instructions_.size();
  }
}

std::span<const Instruction> Program::section(Section section) const {
  const auto s = static_cast<size_t>(section);
  const size_t begin = s == 0 ? 0 : ends_[s - 1];
  return std::span(instructions_).subspan(begin, ends_[s] - begin);
}

std::span<const uint32_t> Program::values(const Instruction& instruction) const {
  return instruction.op == Op::kRecompute
             ? std::span<const uint32_t>()
             : std::span(values_).subspan(instruction.first, instruction.count);
}

std::span<const Instruction> Program::again(const Instruction& recompute) const {
  TENON_ASSERT(recompute.op == Op::kRecompute, "only recomputes repeat forwards");
  return std::span(again_).subspan(recompute.first, recompute.count);
}

}  // namespace tenon
