// SPDX-License-Identifier: Apache-2.0
//
// The loop over the instructions of a program. Runs, plans and meters derive from ProgramVisitor;
// each acts on the instructions that it knows and ignores the others.
// Threads: that of the caller.
#pragma once

#include "host/model/program.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

class ProgramVisitor {
 public:
  virtual ~ProgramVisitor() = default;

  // Called for each instruction whose condition holds. A kRecompute is followed by the forwards
  // that it repeats.
  virtual void visit(const Instruction& instruction) = 0;

  // Returns whether When::kIfAsked holds for the block. Plans take it to hold.
  virtual bool is_asked(uint32_t block) {
    static_cast<void>(block);
    return true;
  }
  // Asked after each kSeen. If it returns false, the rest of the section runs as on a rank without
  // samples.
  virtual bool goes_on() { return true; }
};

// What the conditions of instructions ask about a microbatch.
struct PassConditions {
  bool has_samples = true;  // false: only collective instructions run
  bool is_last_microbatch = true;
  bool is_first_chunk = true;
  bool is_last_chunk = true;
};

// Passes the instructions of a section to the visitor, in order.
// Errors  those of the visitor
void interpret(const Program& program,
               Section section,
               const PassConditions& conditions,
               ProgramVisitor& visitor);

// Returns, by block, how often a pass calls its forward if all conditions hold. Chunks and tiles of
// a forward count as one call.
std::vector<uint32_t> count_forwards(const Program& program, uint32_t num_blocks);

// Returns the blocks of the graph in the order in which a pass runs their forwards; of a pipeline,
// by stage.
std::vector<uint32_t> forward_order(const GraphFacts& graph);

}  // namespace tenon
