// SPDX-License-Identifier: Apache-2.0
//
// The sum of what several ranks gave, made in the order of ranks, so that it has the same bits
// wherever and whenever it is made.
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace tenon {

// sum becomes pieces[0] + pieces[1] + ..., added up in sum's dtype, or in fp32 where that has 16
// bits, and then rounded once. It may be one of the pieces. Computes on the calling thread alone
// and records nothing for backward.
// Shapes  sum [k], each of at least two pieces [k]; contiguous, on the CPU
void sum_of_ranks(const at::Tensor& sum, std::span<const at::Tensor> pieces);

}  // namespace tenon
