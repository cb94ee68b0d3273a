// SPDX-License-Identifier: Apache-2.0
//
// A microbatch on its way through a step, and sums over the microbatches of one.
#pragma once

#include "host/train/objective/loss_set.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace tenon {

struct Microbatch {
  Batch batch;
  std::vector<at::Tensor> counts = {};  // by loss, [] f64; empty until the losses are counted
  std::vector<at::Tensor> sums = {};    // by loss, []; empty until the losses are computed
  std::vector<at::Tensor> seeds = {};   // by loss: what backward multiplies the sum's gradient by
  double aux_scale = 1;                 // the same of auxiliary losses
};

// weight / total; 0 if there is nothing to divide by. Nothing waits for a device.
// Shapes  total [], any device; the result lies beside it
at::Tensor seed_of(double weight, const at::Tensor& total);

// The count of one loss over all microbatches of this rank; undefined if none is counted.
at::Tensor count_of(const std::vector<Microbatch>& microbatches, size_t loss);

// The mean loss over the microbatches whose losses are computed, weighted as in the run's loss;
// undefined if there are none.
at::Tensor mean_loss(const std::vector<Microbatch>& microbatches, const LossSet& losses);

}  // namespace tenon
