// SPDX-License-Identifier: Apache-2.0
//
// Exchanges of tensors among the ranks that hold the parts of sequences. No autograd. All ranks
// make the same calls. One rank alone sends nothing.
#pragma once

#include "host/kernels/sequence_parts.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon {

// Tensors of one dtype for or from each rank, in rank order.
using RankTensors = std::vector<std::vector<at::Tensor>>;
using RankShapes = std::vector<std::vector<std::vector<int64_t>>>;

// Sends `send[r]` to each rank r and returns what each rank sends here, of the shapes `shapes[r]`.
// The tensors of this rank for itself are returned as they are. `like` has the dtype and device.
RankTensors exchange_tensors(const SequenceParts& parts,
                             const RankTensors& send,
                             const RankShapes& shapes,
                             const at::TensorOptions& like,
                             std::string_view what);

// x of the positions that `rank` holds: a view.
at::Tensor positions_of(const at::Tensor& x_BS, const SequenceParts& parts, uint32_t rank);

// Returns tensors of all positions, [B, S, ...], from those of this rank, [B, T, ...].
std::vector<at::Tensor> gather_positions(const std::vector<at::Tensor>& parts_BT,
                                         const SequenceParts& parts,
                                         std::string_view what);

// The inverse for gradients: returns the sums over all ranks, [B, T, ...], from the terms of this
// rank, [B, S, ...]. Sums are in rank order, in fp32 for narrower dtypes. Ranks without positions
// have no queries, so they add nothing.
std::vector<at::Tensor> sum_positions(const std::vector<at::Tensor>& terms_BS,
                                      const SequenceParts& parts,
                                      std::string_view what);

// Sums in order; narrow dtypes in fp32, rounded once. At least one term.
at::Tensor sum_in_order(const std::vector<at::Tensor>& terms);

// Returns the integers of all positions, [B, S] i64. Within a scope, a tensor that was not written
// since is sent once.
//
// Shapes  part_BT [B, T], integers
at::Tensor whole_integers(const at::Tensor& part_BT,
                          const SequenceParts& parts,
                          std::string_view what);

}  // namespace tenon
