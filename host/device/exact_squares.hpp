// SPDX-License-Identifier: Apache-2.0
//
// Exact sums of squares on any device, as words (host/tensor/exact_words.hpp) in a tensor of that
// device. On a GPU, nothing here waits for the device. The bits are the same on the CPU and on a
// GPU.
// Limits: on a GPU, at most 2^31 - 1 chunks in words that are added up, also over ranks: for chunks
// of 1024 elements, 2.2e12 elements.
// Threads: the train thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// True on the CPU, and on a GPU if the CUDA module was built with CUDA's compiler.
bool has_exact_squares(at::Device device);

// Returns the words of an empty sum. Call these functions only if has_exact_squares().
// Shapes  [kExactWords] i64
at::Tensor exact_zero(at::Device device);

// Adds the squares of all elements, summed over chunks as add_squares() of flat_pass.hpp does.
// Shapes  words [kExactWords] i64; flat [n] of a float dtype, contiguous, on the device of words
void add_exact_squares(at::Tensor& words, const at::Tensor& flat, int64_t chunk);

// Returns the square root of a sum. Infinite if the sum exceeds fp64, also if no element does.
// Shapes  words [kExactWords] i64; returns [] f64 on their device
at::Tensor exact_root(const at::Tensor& words);

}  // namespace tenon
