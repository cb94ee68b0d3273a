// SPDX-License-Identifier: Apache-2.0
//
// Finds where a non-finite step went wrong, after its backward. The forward is run again as a
// recompute, with a check of each block; then gradients and parameters are checked. The search
// changes nothing. It is slow, and meant for steps that are skipped.
// Invariant: with several ranks, all ranks make the same calls of the model, regardless of what
// each rank finds.
// Threads: the train thread.
#pragma once

#include "host/model/program_runner.hpp"
#include "host/train/objective/loss_set.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// The values of a microbatch that exist after its backward.
struct PastMicrobatch {
  const Batch* batch = nullptr;
  // By loss; empty if it had no samples, or if another rank has the stage of the losses.
  const std::vector<at::Tensor>* sums = nullptr;
  const std::vector<at::Tensor>* counts = nullptr;  // by loss
};

// How far the values that were found are from the cause; nearest first. kOutput: of a block that
// reads finite values on this rank; the ranks that divide it may have read others.
enum class OriginDistance { kForward, kOutput, kGradient, kParameter, kUnknown };

struct NonFiniteOrigin {
  OriginDistance distance = OriginDistance::kUnknown;
  std::string text;  // a phrase for a message
};

// kUntilFound: stops at the first finding. kInStepWithRanks: searches the whole step, since all
// ranks may run blocks together.
enum class OriginSearch { kUntilFound, kInStepWithRanks };

// Returns the first point in the step with non-finite values: "parameter 'a' of block 'b' holds 2
// non-finite values". Call it before gradients are clipped or parameters are updated. Waits for the
// device.
NonFiniteOrigin find_non_finite_origin(ProgramRunner& model,
                                       MicrobatchState& values,
                                       ParameterStore& parameters,
                                       const LossSet& losses,
                                       const std::vector<PastMicrobatch>& microbatches,
                                       uint64_t step,
                                       OriginSearch search);

// Like find_non_finite_origin(), for a step that is over: uses only the norms of its gradients, by
// parameter.
// Shapes  norms [parameters] f64
NonFiniteOrigin non_finite_gradient(const ModelGraph& graph,
                                    const std::vector<uint32_t>& parameters,
                                    const at::Tensor& norms);

}  // namespace tenon
