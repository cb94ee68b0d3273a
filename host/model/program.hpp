// SPDX-License-Identifier: Apache-2.0
//
// A pass over the blocks of a graph as a list of instructions. Each instruction is one effect on
// something that has a lifetime: parameters of a group, table rows, a value, what a block keeps for
// backward, a gradient. compile_program.hpp compiles a program from the graph, the recipe and what
// a rank keeps. A program has no tensors, no sizes of a batch and no state of a microbatch. With a
// pipeline, a pass has a program for each stage, with the blocks of that stage alone.
//
// Terms: the *tape* of a block is what its forward keeps until its backward: the inputs and, if the
// forward records, the autograd graph with the saved tensors.
//
// Invariants (find_problem checks them): each value that an instruction reads was set before and
// was not dropped; each gathered group is freed once; each group is whole while a block uses it;
// values that were moved away come back in reverse order. Collective instructions depend on the
// program alone, never on data, so the ranks of a group run the same ones in the same order.
// Threads: any; a program does not change.
#pragma once

#include "host/model/group_facts.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon {

enum class Op : uint8_t {
  // Parameters: `group`. All are collective.
  kGather,  // starts to make a sharded group whole
  kAwait,   // waits for its gather, or for the one that an update has started
  kFree,    // frees the whole parameters
  kReduce,  // starts the reduction of the gradients of the group, which are complete
  kUpdate,  // updates the group on a rank that frees gradients

  // Table rows: `values`. All are collective.
  kLookup,        // starts the lookups of a batch
  kRows,          // sets values to rows; `block` is their first reader
  kRowGradients,  // hands the gradients of rows to the tables; drops rows and gradients

  // Blocks: `block`.
  kForward,       // calls forward on the inputs, and sets the outputs
  kKeep,          // states what the tape keeps until backward, and drops the rest of it
  kRecompute,     // runs the forwards `Program::again` once per unit
  kBackward,      // calls backward, and adds the gradients of parameters
  kAddGradients,  // adds the gradients of the block's inputs, `values`, in this order; then drops
                  // those of its outputs
  kPutPieces,     // copies gradients of a chunk of `values` to their place in the whole gradient
  kSeen,          // an observer may read inputs, outputs and parameters of the block

  // Values: `values`.
  kDrop,       // forgets values, and with kTape the tape of `block`
  kMoveAway,   // moves values, and kept results of attention, to the activation store
  kBringBack,  // takes back what the kMoveAway of the same block moved

  // Losses.
  kLoss,          // computes the losses
  kLossBackward,  // adds the gradients of the values that losses read

  // Messages between stages of a pipeline: `stage` is the other one. Not collective: all ranks of a
  // pipeline have the same samples, and without samples none of them sends anything.
  kReceive,           // sets `values`, which other ranks make
  kSend,              // sends `values`, which this rank makes
  kReceiveGradients,  // sets the gradients of `values` to the sums so far
  kSendGradients,     // sends the sums of the gradients of `values`, and drops these
};
inline constexpr size_t kNumOps = static_cast<size_t>(Op::kSendGradients) + 1;

// Condition under which an instruction runs in a microbatch.
enum class When : uint8_t {
  kAlways,
  kIfAsked,           // an output of `block` has a gradient, or `block` added an auxiliary loss
  kInLastMicrobatch,  // of a step
  kInFirstChunk,      // of T
  kInLastChunk,
};

// Details of one instruction; bits.
enum InstructionFlag : uint16_t {
  kRecords = 1U << 0,          // kForward: under autograd
  kIsAgain = 1U << 1,          // kForward: as a recompute, which changes no buffer
  kInTiles = 1U << 2,          // kForward, kBackward: in tiles of positions
  kKeepsAttention = 1U << 3,   // kForward, kKeep: keeps, or takes again, results of attention
  kInChunk = 1U << 4,          // kForward, kBackward, kLoss: on the current chunk of T
  kLastPosition = 1U << 5,     // kForward: on the last position only
  kInputsOnly = 1U << 6,       // kKeep: the inputs without the autograd graph
  kTape = 1U << 7,             // kDrop: also the tape of `block`
  kFromTapes = 1U << 8,        // kDrop: also the copies in tapes of readers
  kSettlesGradients = 1U << 9  // kAwait: also for a reduction of an earlier microbatch that reads
                               // the memory of the group's gradients
};

struct Instruction {
  Op op = Op::kDrop;
  When when = When::kAlways;
  uint16_t flags = 0;         // InstructionFlag
  uint32_t block = kNoIndex;  // kNoIndex: none
  uint32_t group = kNoIndex;  // flat group of parameters; kNoIndex: none
  uint32_t first = 0;         // range of Program::values, or of Program::again for kRecompute
  uint32_t count = 0;
  uint32_t stage = kNoIndex;  // kNoIndex: none

  bool has(InstructionFlag flag) const { return (flags & flag) != 0; }
  bool operator==(const Instruction&) const = default;
};

// Returns whether the instruction takes part in a collective. A rank without samples runs these
// instructions and no others.
bool is_collective(Op op);

// Returns the name of an instruction for people: "add gradients".
const char* name_of(Op op);

enum class PassKind : uint8_t {
  kTrain,     // forward, losses and backward
  kEvaluate,  // forward and losses; keeps nothing for a backward
  kReplay,    // forward as a recompute with kSeen after each block; drops no value
  kGenerate,  // forward of the blocks that the logits depend on; gathers without prefetch
};

// Parts of a program. Hooks run between them. The losses of a program with chunks run once for each
// chunk of T.
enum class Section : uint8_t { kForward, kLosses, kBackward, kEnd };
inline constexpr size_t kNumSections = 4;

class Program {
 public:
  // Instructions that are not yet part of a program, with their values.
  struct Draft {
    Instruction instruction;
    std::vector<uint32_t> values;
  };
  // Joins sections. `again` has the forwards that recomputes repeat.
  Program(PassKind kind,
          uint32_t stage,
          bool has_chunks,
          std::span<const std::vector<Draft>, kNumSections> sections,
          std::vector<Instruction> again);

  PassKind kind() const { return kind_; }
  // The stage of its blocks; 0 without a pipeline.
  uint32_t stage() const { return stage_; }
  // True if the losses run in chunks of T.
  bool has_chunks() const { return has_chunks_; }
  std::span<const Instruction> section(Section section) const;
  // Returns the values of an instruction of this program; none for kRecompute.
  std::span<const uint32_t> values(const Instruction& instruction) const;
  // Returns the forwards that a kRecompute runs: of the recomputed blocks of its unit up to its
  // block, in the order of the graph. Of several kRecompute of a unit, the first that is asked
  // runs.
  std::span<const Instruction> again(const Instruction& recompute) const;

 private:
  PassKind kind_;
  uint32_t stage_;
  bool has_chunks_;
  std::vector<Instruction> instructions_;
  std::array<size_t, kNumSections> ends_{};  // of sections, in instructions_
  std::vector<uint32_t> values_;
  std::vector<Instruction> again_;
};

// Returns the first violation of the invariants above with its instruction, for a pass in which
// all conditions hold; "" if there is none.
std::string find_problem(const Program& program,
                         const GraphFacts& graph,
                         std::span<const GroupFacts> groups);

}  // namespace tenon
