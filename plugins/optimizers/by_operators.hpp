// SPDX-License-Identifier: Apache-2.0
//
// For optimizers made of libtorch's operators: arithmetic in fp32 or wider, updates that a
// non-finite gradient must not change, and passes over long pieces by chunks that stay in cache.
#pragma once

#include <tenon/torch/optimizer.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <optional>

// The values in the dtype in which an update computes: fp32, or the wider dtype of the tensor.
inline at::Tensor widened(const at::Tensor& x) {
  return x.to(at::promote_types(x.scalar_type(), at::kFloat));
}

// True if the update is known to be skipped. On a GPU that is unknown, and `store` skips it.
inline bool is_skipped(const tenon::TorchUpdate& update) {
  return update.found_inf && update.found_inf->is_cpu() && update.found_inf->item<float>() == 1;
}

// Writes new values in place, rounded once, unless the device finds that the update is non-finite.
inline void store(const tenon::TorchUpdate& update, at::Tensor to, const at::Tensor& values) {
  if (update.found_inf && !update.found_inf->is_cpu()) {
    to.copy_(at::where(update.found_inf->eq(1), to, values.to(to.scalar_type())));
  } else if (!to.is_same(values)) {
    to.copy_(values);
  }
}

// Calls run(begin, length) for ranges of n elements. On a CPU, ranges are short, so that the
// temporary tensors of an update stay in cache and take no memory of the size of the piece.
template <class Run>
void for_each_chunk(const at::Tensor& piece, const Run& run) {
  constexpr int64_t kChunk = 1 << 16;
  const int64_t n = piece.numel();
  const int64_t step = piece.is_cpu() ? kChunk : std::max<int64_t>(n, 1);
  for (int64_t begin = 0; begin < n; begin += step) {
    run(begin, std::min(step, n - begin));
  }
}

// A part of a piece, as a flat view.
inline at::Tensor part_of(const at::Tensor& piece, int64_t begin, int64_t length) {
  return piece.view({-1}).narrow(0, begin, length);
}
