// SPDX-License-Identifier: Apache-2.0
#include "host/train/microbatch_losses.hpp"

#include "host/tensor/batch_positions.hpp"

#include <ATen/TensorOperators.h>

#include <vector>

namespace tenon {

void MicrobatchLosses::compute(MicrobatchState& values) {
  std::vector<SourceSums>* const by_source =
      microbatch_.is_by_source ? &microbatch_.by_source : nullptr;
  const LossChunk& chunk = values.chunk();
  if (chunk.number == 0) {
    microbatch_.sums =
        losses_.compute(values, microbatch_.batch, point_, microbatch_.calls, by_source);
    return;
  }
  const Batch piece = narrow_positions(microbatch_.batch, {chunk.begin, chunk.length});
  const std::vector<at::Tensor> sums =
      losses_.compute(values, piece, point_, microbatch_.calls, by_source);
  if (chunk.number == 1) {
    microbatch_.sums.assign(sums.size(), at::Tensor());
  }
  for (size_t l = 0; l < sums.size(); ++l) {
    const at::Tensor part = sums[l].to(at::kDouble);
    at::Tensor& sum = microbatch_.sums[l];
    sum = sum.defined() ? sum + part : part;
  }
}

void MicrobatchLosses::backward(MicrobatchState& values) {
  losses_.backward(values, point_, microbatch_.calls, microbatch_.seeds);
}

}  // namespace tenon
