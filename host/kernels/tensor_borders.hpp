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

#include "host/kernels/norm.hpp"
#include "host/kernels/region_call.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

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

// ---- for products that keep the piece of an input that tensor_in() gathered ----

// The input of some products, while their backward needs it. It is gathered again by the first of
// them, and dropped when the backward of its tensor_in() starts.
struct GatheredInput : torch::CustomClassHolder {
  RegionCall call;
  at::Tensor whole;
};
using GatheredInputPtr = c10::intrusive_ptr<GatheredInput>;

// What tensor_in() keeps.
struct EnteredPiece {
  GatheredInputPtr input;
  std::optional<NormAgain> norm;  // which made the piece
  at::Tensor piece;               // defined if no norm made it
};

// Returns what tensor_in() keeps if it gathered `y` for autograd; nothing for other tensors, and
// after the backward of `y`.
std::optional<EnteredPiece> entered_piece_of(const at::Tensor& y);

// Sets and returns the whole, from this rank's piece.
at::Tensor gather_again(GatheredInput& input, const at::Tensor& piece);

}  // namespace tenon
