// SPDX-License-Identifier: Apache-2.0
//
// Memory of a step of a rank, by interpreting its program as a run does: a value lives in the
// values, in tapes and as an output of a recompute, and its bytes count once while anything holds
// it. Not for memory that lives as long as the run (rank_plan.hpp).
//
// Assumes that each output that has a gradient receives one, that values moved away are written
// before backward, that a reduction has finished when the next one starts, and that messages of a
// stage have arrived when the rank sends the next ones.
// Threads: any.
#pragma once

#include "host/train/plan/planned_pass.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace tenon {

// Bytes at the fullest moment of a step.
struct PlannedPeak {
  int64_t gathered = 0;  // temporary unsharded parameters and gradients
  int64_t activations = 0;
  int64_t rounding = 0;  // that the allocator adds to both
  std::string moment;    // "backward of block 'head'"; empty if no bytes are held
};

// Called after an instruction with the bytes that are held. A kRecompute ends with its last
// forward.
using MemoryObserver = std::function<void(const Instruction& instruction, int64_t bytes)>;

PlannedPeak planned_peak(const PlannedPass& pass, const MemoryObserver& observer = {});

}  // namespace tenon
