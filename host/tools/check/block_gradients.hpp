// SPDX-License-Identifier: Apache-2.0
//
// Compares the gradients of one block with central finite differences.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/model_trial.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// Returns random gradients for the outputs that gradients flow through; undefined for the others.
std::vector<at::Tensor> random_weights(Subject& subject,
                                       const ModelTrial& trial,
                                       uint32_t b,
                                       const BlockTape& tape);

struct GradientFindings {
  std::vector<std::string> problems;
  // Gradients that differ, but may be right: autograd computed them by operators of libtorch and of
  // the host alone. The rest of the difference is not recorded, as behind a detach().
  std::vector<std::string> unrecorded;
};

// Moves each input and parameter of a block along a random direction, and compares the change of a
// weighted sum of the outputs with the gradient. Returns what differs.
GradientFindings compare_gradients(Subject& subject, ModelTrial& trial, uint32_t b);

}  // namespace tenon
