// SPDX-License-Identifier: Apache-2.0
//
// The sum of tensors from several ranks, added in rank order, so that it has the same bits wherever
// and whenever it is computed.
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace tenon {

// Sets `sum` to pieces[0] + pieces[1] + ..., added in its dtype. If that dtype has 16 bits, adds in
// fp32 and rounds once. `sum` may be one of the pieces. Computes on the calling thread only, and
// records nothing for the backward pass.
// Shapes  sum [k], each of at least two pieces [k]; contiguous, on the CPU
void sum_of_ranks(const at::Tensor& sum, std::span<const at::Tensor> pieces);

}  // namespace tenon
