// SPDX-License-Identifier: Apache-2.0
//
// tenon::expert_mlp: the feed-forward layer of a mixture of experts. No token is dropped: the rows
// of each expert are gathered, and each expert computes one product for all of them.
//
// Source: Shazeer et al., Outrageously Large Neural Networks (ICLR 2017), equation 1; Gale et al.,
// MegaBlocks (MLSys 2023), for dropless experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace tenon {

// sum_j weights[n, j] * mlp of expert experts[n, j] (x[n]), where the mlp of expert i is
// (act(x gate[i]^T) * (x up[i]^T)) down[i]^T. Differentiable with respect to all but `experts`.
// Results have the same bits for any number of threads, as far as products have.
//
// Shapes  x [N, D], gate and up [X, F, D], down [X, D2, F], experts [N, k] integers in [0, X),
//         weights [N, k]; the result is [N, D2]
// Errors  c10::IndexError on a CPU for an expert that does not exist, with its position; c10::Error
//         for an unknown activation or shapes that do not match
at::Tensor expert_mlp(const at::Tensor& x,
                      const at::Tensor& gate,
                      const at::Tensor& up,
                      const at::Tensor& down,
                      const at::Tensor& experts,
                      const at::Tensor& weights,
                      std::string_view activation);

}  // namespace tenon
