// SPDX-License-Identifier: Apache-2.0
//
// Bytes of values and of what calls of blocks keep and allocate, as a choice of recompute and tiles
// has them. Not for lifetimes, which the program decides (planned_memory.hpp).
// Threads: any.
#pragma once

#include "host/model/program.hpp"
#include "host/train/plan/plan_subject.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Returns the bytes of each parameter's gradient, in the dtype that autograd produces; 0 if it is
// frozen.
std::vector<int64_t> parameter_gradient_bytes(const PlanSubject& subject);

class PlannedActivations {
 public:
  // Tails of `facts` run in chunks if `has_chunks`. All references outlive this object.
  PlannedActivations(const PlanSubject& subject,
                     const PlanChoice& choice,
                     const GraphFacts& facts,
                     bool has_chunks);

  // Share of the positions that one call of the losses has.
  double chunk_share() const { return chunk_share_; }

  // Of a chunk, if the value exists in chunks only.
  int64_t value_bytes(uint32_t v) const { return value_bytes_[v]; }
  // Bytes that the call of a kForward saves for backward, without inputs and outputs.
  int64_t saved_bytes(const Instruction& forward) const;
  // Results of attention that a selective recompute of the block keeps.
  int64_t attention_bytes(uint32_t b) const;
  // Gradient of an input that a kBackward returns.
  int64_t input_gradient_bytes(const Instruction& backward, uint32_t v) const;
  // Of the block's parameters.
  int64_t parameter_gradient_bytes(uint32_t b) const;
  // Allocated by a kBackward at its peak, with its results.
  int64_t working_bytes(const Instruction& backward) const;

 private:
  void measure_values();
  double share_of(const Instruction& call) const;

  const PlanSubject& subject_;
  const ModelGraph& graph_;
  const PlanChoice choice_;
  const GraphFacts& facts_;
  const bool has_chunks_;
  const double chunk_share_;
  const std::vector<int64_t> gradient_bytes_;  // by parameter
  std::vector<int64_t> value_bytes_;           // by value
};

}  // namespace tenon
