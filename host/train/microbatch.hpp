// SPDX-License-Identifier: Apache-2.0
//
// A microbatch during a step, and sums over the microbatches of a step.
#pragma once

#include "host/model/microbatch_state.hpp"
#include "host/train/objective/loss_set.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace tenon {

struct Microbatch {
  Batch batch;
  MicrobatchState* state = nullptr;     // of the model on this batch; borrowed
  std::vector<at::Tensor> counts = {};  // by loss, [] f64; empty until the losses are counted
  // By loss: those of all ranks that divide the sequences; empty: `counts`.
  std::vector<at::Tensor> whole_counts = {};
  std::vector<at::Tensor> sums = {};       // by loss, []; empty until the losses are computed
  std::vector<at::Tensor> seeds = {};      // by loss: factor on the sum's gradient in backward
  LossCalls calls = {};                    // of the losses, from their sums to their gradients
  double aux_scale = 1;                    // factor on the gradients of auxiliary losses
  bool is_by_source = false;               // losses are also computed for each source of a mix
  std::vector<SourceSums> by_source = {};  // in the order of their first use
};

// Returns weight / total; 0 if `total` is 0. Does not wait for a device.
// Shapes  total [], any device; the result is on the same device
at::Tensor seed_of(double weight, const at::Tensor& total);

// Returns the count of one loss over all microbatches of this rank; undefined if none is counted.
at::Tensor count_of(const std::vector<Microbatch>& microbatches, size_t loss);

// Returns the mean loss over the microbatches whose losses are computed, weighted as in the run's
// loss; undefined if there are none.
at::Tensor mean_loss(const std::vector<Microbatch>& microbatches, const LossSet& losses);

}  // namespace tenon
