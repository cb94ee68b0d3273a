// SPDX-License-Identifier: Apache-2.0
//
// Builds programs: adds instructions in the order in which they run, and leaves out those without
// an effect. It follows which values, tapes and whole parameters exist after each instruction. Not
// for decisions (compile_program.hpp, compile_generation.hpp). Threads: any, one at a time.
#pragma once

#include "host/model/program.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class ProgramBuilder {
 public:
  // Nothing exists except the batch fields that blocks read. Both arguments are borrowed.
  ProgramBuilder(const GraphFacts& graph, std::span<const GroupFacts> groups);

  // Sets the section of the instructions that follow.
  void begin(Section section) { section_ = static_cast<size_t>(section); }
  // Sets the condition of the instructions that follow, unless they have another one.
  void set_condition(When when) { when_ = when; }
  void add(Instruction instruction, std::vector<uint32_t> values = {});

  // Adds kGather for block `b` if the group is not whole, and kFree if kGather made it whole.
  void gather(uint32_t g, uint32_t b);
  void free(uint32_t g, uint32_t b);
  // True if the group was gathered, and not freed since.
  bool is_whole(uint32_t g) const { return is_whole_[g]; }

  void forward(uint32_t b, uint16_t flags);
  // Adds kDrop for the values that exist, with kFromTapes also those that tapes of readers may
  // have, and with kTape for the tape of the block if it exists.
  void drop(uint32_t b, std::span<const uint32_t> values, uint16_t flags = 0);
  // States that values exist, or no longer exist, after an instruction added by `add`.
  void set(std::span<const uint32_t> values);
  void forget(std::span<const uint32_t> values);
  bool is_set(uint32_t v) const { return is_set_[v]; }

  // Adds a forward that recomputes repeat. Returns the number of such forwards.
  uint32_t add_again(const Instruction& forward);

  // Returns the program. Call it last.
  Program finish(PassKind kind, uint32_t stage, bool has_chunks);

 private:
  const GraphFacts& facts_;
  const std::span<const GroupFacts> groups_;
  size_t section_ = 0;
  When when_ = When::kAlways;
  std::array<std::vector<Program::Draft>, kNumSections> sections_;
  std::vector<Instruction> again_;
  std::vector<bool> is_set_;    // by value
  std::vector<bool> has_tape_;  // by block
  std::vector<bool> is_whole_;  // by group
};

// Returns whether blocks read table rows.
bool has_rows(const GraphFacts& graph);

}  // namespace tenon
