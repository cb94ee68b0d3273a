// SPDX-License-Identifier: Apache-2.0
//
// Exchanges between positions and heads: from all heads of this rank's positions to all positions
// of this rank's heads, and back. Differentiable; the backward is the inverse exchange.
// Source: Jacobs et al., DeepSpeed Ulysses (2023), section 3.
#pragma once

#include "host/kernels/sequence_parts.hpp"

#include <ATen/core/Tensor.h>

#include <array>

namespace tenon {

// Returns queries, keys and values of all S positions, of the heads and slots of this rank by
// heads_of_ranks. A key head of several slots gets the sum of their gradients, by rank, then slot.
//
// Shapes  query_BTHE, key_BTKE and value_BTKV of one dtype
std::array<at::Tensor, 3> exchange_to_heads(const at::Tensor& query_BTHE,
                                            const at::Tensor& key_BTKE,
                                            const at::Tensor& value_BTKV,
                                            const SequenceParts& parts);

// Returns outputs of all H heads and of this rank's positions, [B, T, H, V], from those of this
// rank's heads and all positions.
at::Tensor exchange_to_positions(const at::Tensor& y_BSHV,
                                 int64_t num_heads,
                                 const SequenceParts& parts);

}  // namespace tenon
