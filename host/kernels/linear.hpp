// SPDX-License-Identifier: Apache-2.0
//
// tenon::linear. operators.cpp has the schemas of all operators, docs/reference/operators.md their
// contracts.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace tenon {

// act(x [w0; w1; ...]^T + b), differentiable.
//
// Shapes  x [..., K], weights [N_i, K], bias [sum of N_i]; the result is [..., sum of N_i]
// Errors  c10::Error for an unknown activation or shapes that do not match
at::Tensor linear(const at::Tensor& x,
                  at::TensorList weights,
                  const std::optional<at::Tensor>& bias,
                  std::string_view activation);

// "relu", "gelu" (by erf), "gelu_tanh", "silu" or "tanh" of x; x itself for "none". `x` may be
// changed.
at::Tensor activated(at::Tensor x, std::string_view activation);

}  // namespace tenon
