// SPDX-License-Identifier: Apache-2.0
//
// tenon::gated_mlp: the feed-forward layer of Llama and its relatives.
//
// Source: Shazeer, GLU Variants Improve Transformer (2020).
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace tenon {

// (act(x gate^T) * (x up^T)) down^T.
//
// Shapes  x [..., D], gate and up [F, D], down [D2, F]; the result is [..., D2]
// Errors  c10::Error for an unknown activation ("silu", "gelu", "gelu_tanh", "relu") or shapes that
//         do not match
at::Tensor gated_mlp(const at::Tensor& x,
                     const at::Tensor& gate,
                     const at::Tensor& up,
                     const at::Tensor& down,
                     std::string_view activation);

}  // namespace tenon
