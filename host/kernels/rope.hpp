// SPDX-License-Identifier: Apache-2.0
//
// tenon::rope: rotary positions.
//
// Source: Su et al., RoFormer (2021), equation 34, with halves instead of pairs, as in Hugging
// Face's code.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

// Rotates pairs (a, b) of the first R features of each head, with b R/2 features after a, by the
// angle of their position: (a cos - b sin, b cos + a sin). The other features stay. Differentiable.
// Own kernels serve a table that needs no gradient.
//
// Shapes  x [B, T, H, E], any strides; table [2, P, R/2] with R <= E: cosines and sines by
//         position; positions [B, T] in [0, P), integers; absent: 0, 1, ..., with P >= T. The
//         result has x's shape and is dense
// Errors  c10::IndexError on a CPU for a position outside of the table; c10::Error for other shapes
at::Tensor rope(const at::Tensor& x,
                const at::Tensor& table,
                const std::optional<at::Tensor>& positions);

// Dense i64 positions of [num_samples, num_positions] for a table of `num_rows` rows, checked as
// above; undefined if `positions` is absent. `op` is the name of the operator in messages.
at::Tensor rotary_positions(std::string_view op,
                            const std::optional<at::Tensor>& positions,
                            int64_t num_samples,
                            int64_t num_positions,
                            int64_t num_rows);

}  // namespace tenon
