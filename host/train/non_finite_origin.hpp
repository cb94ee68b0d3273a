// SPDX-License-Identifier: Apache-2.0
//
// Finds where a step that is not finite went wrong, after the fact: the forward is run again, as a
// recompute, with a look at each block; then the gradients are looked at. It changes nothing, and
// it is slow: it is for steps that are thrown away. Invariant: with several ranks, all make the
// same calls of the model, whatever each finds. Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
#include "host/train/objective/loss_set.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// What is left of a microbatch after its backward.
struct PastMicrobatch {
  const Batch* batch = nullptr;
  const std::vector<at::Tensor>* sums = nullptr;    // by loss; empty where it had no samples
  const std::vector<at::Tensor>* counts = nullptr;  // by loss
};

// How far what was found is from where it began.
enum class OriginDistance { kForward, kGradient, kParameter, kUnknown };

struct NonFiniteOrigin {
  OriginDistance distance = OriginDistance::kUnknown;
  std::string text;  // a part of a sentence
};

// kInStepWithRanks: the whole step is looked at, since blocks may be run by all ranks together.
enum class OriginSearch { kUntilFound, kInStepWithRanks };

// The first place of the step that was not finite: "parameter 'a' of block 'b' holds 2 values that
// are not finite". Before the gradients are clipped or the parameters updated. Waits for the
// device.
NonFiniteOrigin find_non_finite_origin(ModelRunner& model,
                                       ParameterStore& parameters,
                                       const LossSet& losses,
                                       const std::vector<PastMicrobatch>& microbatches,
                                       uint64_t step,
                                       OriginSearch search);

// The same from the gradients alone, for when the step is past: their norms, by parameter.
// Shapes  norms [parameters] f64
NonFiniteOrigin non_finite_gradient(const ModelGraph& graph,
                                    const std::vector<uint32_t>& parameters,
                                    const at::Tensor& norms);

}  // namespace tenon
