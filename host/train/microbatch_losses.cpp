// SPDX-License-Identifier: Apache-2.0
#include "host/train/microbatch_losses.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon {
namespace {

// Returns a slice of the batch: fields with an axis T are cut along T, as views.
Batch piece_of(const Batch& batch, int64_t begin, int64_t length) {
  Batch piece = batch;
  piece.sequences.clear();
  for (BatchSequence sequence : batch.sequences) {
    const int64_t end = std::min(sequence.first + sequence.length, begin + length);
    sequence.first = std::max(sequence.first, begin);
    sequence.length = end - sequence.first;
    if (sequence.length > 0) {
      sequence.first -= begin;
      piece.sequences.push_back(sequence);
    }
  }
  for (size_t i = 0; i < piece.fields.size(); ++i) {
    const std::vector<Axis>& axes = (*batch.schema)[i].axes;
    const auto found = std::ranges::find(axes, "T", &Axis::name);
    if (found != axes.end() && piece.fields[i].defined()) {
      piece.fields[i] = piece.fields[i].narrow(found - axes.begin(), begin, length);
    }
  }
  return piece;
}

}  // namespace

void MicrobatchLosses::compute(MicrobatchState& values) {
  std::vector<SourceSums>* const by_source =
      microbatch_.is_by_source ? &microbatch_.by_source : nullptr;
  const LossChunk& chunk = values.chunk();
  if (chunk.number == 0) {
    microbatch_.sums =
        losses_.compute(values, microbatch_.batch, point_, microbatch_.calls, by_source);
    return;
  }
  const Batch piece = piece_of(microbatch_.batch, chunk.begin, chunk.length);
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
