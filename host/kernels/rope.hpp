// SPDX-License-Identifier: Apache-2.0
//
// tenon::rope: rotary positions.
//
// Source: Su et al., RoFormer (2021), equation 34, with halves instead of pairs, as in Hugging
// Face's code.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon {

// Rotates pairs (a, b) of each head, with b half a head after a, by the angle of their position:
// (a cos - b sin, b cos + a sin). Differentiable. Own kernels serve a table that needs no gradient.
//
// Shapes  x [B, T, H, E] with even E, any strides; table [2, P, E/2] with P >= T: cosines and sines
//         by position. The result has x's shape and is dense
// Errors  c10::Error for other shapes
at::Tensor rope(const at::Tensor& x, const at::Tensor& table);

}  // namespace tenon
