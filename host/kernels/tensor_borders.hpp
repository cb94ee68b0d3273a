// SPDX-License-Identifier: Apache-2.0
//
// The operators of a divided region (tensor_region.hpp).
//
//   operator           forward                                      gradient
//   tensor_in(x)       identity; with pieces of T: gather           sum over ranks; with pieces:
//                                                                   reduce-scatter
//   tensor_out(x)      sum over ranks; with pieces: reduce-scatter  identity; with pieces: gather
//   sum_over(x, m, w)  sum over ranks, each unit once               the same sum
//   max_over(x)        maximum over ranks                           none
//
// Each border is the adjoint of the other: a hand-written backward calls tensor_out where its
// forward called tensor_in, and the reverse. All ranks make the same calls in the same order.
// Without a region, and in a group of one rank, the operators return their input, converted as
// autocast says for tensor_in. Nothing is sent for tensors without elements.
//
// Source: f and g of Shoeybi et al., Megatron-LM (2019), section 3; pieces of T: Korthikanti et
// al., Reducing Activation Recomputation in Large Transformer Models (2022), section 4.2 Threads:
// any; calls are in the region of their thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// Shapes  with pieces of T: x [B, T of this rank, ...]; the result is [B, T, ...]
// Errors  c10::Error, with block, rank and positions, if axis 1 has another size
at::Tensor tensor_in(const at::Tensor& x);
// Shapes  with pieces of T: x [B, T, ...]; the result is [B, T of this rank, ...]
// Errors  as tensor_in
at::Tensor tensor_out(const at::Tensor& x);
// Returns the sum over ranks of `x`, which this rank computed over `mine` of `whole` elements; each
// element counts once, although several ranks may have it.
// Errors  c10::Error if x is not of floating point, or if ranks with `mine` elements each do not
//         have all of them equally often
at::Tensor sum_over(const at::Tensor& x, int64_t mine, int64_t whole);
at::Tensor max_over(const at::Tensor& x);
// The rank of this thread in its tensor group, and the group's number of ranks; 0 and 1 outside of
// a region.
int64_t tensor_rank();
int64_t tensor_size();

}  // namespace tenon
