// SPDX-License-Identifier: Apache-2.0
//
// One microbatch through a loss, as the host does it: count, sum, and the gradient of the sum by
// the first input.
#pragma once

#include "host/plugin/loss_proxy.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon {

struct LossResult {
  at::Tensor sum;
  double count = 0;
  std::vector<at::Tensor> grads;  // by each input; undefined where there is none
};

// Runs the loss on inputs of which undefined ones are absent. The gradient is times `grad_sum`.
LossResult call_loss(const LossProxy& loss, std::vector<at::Tensor> inputs, double grad_sum = 1.0);

// The sum alone, without a gradient.
at::Tensor evaluate_loss(const LossProxy& loss, const std::vector<at::Tensor>& inputs);

// The count alone, of batch fields alone.
double count_loss(const LossProxy& loss, const std::vector<at::Tensor>& inputs);

}  // namespace tenon
