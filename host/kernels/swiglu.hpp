// SPDX-License-Identifier: Apache-2.0
//
// silu(gate) * up, in fp32 on the CPU, without autograd. One pass over rows in each direction. Gate
// and up are two tensors, or the adjacent halves of one, the layout of a product with both weights.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon {

// Shapes  gate_up [M, 2 F], dense: gates, then ups; the result is [M, F]
at::Tensor swiglu(const at::Tensor& gate_up);

// Shapes  gate and up [M, F], with dense rows of one stride; the result is [M, F]
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// The gradient by both halves in one tensor.
// Shapes  gate_up [M, 2 F] and grad_y [M, F], dense; the result is [M, 2 F]
at::Tensor swiglu_grad(const at::Tensor& gate_up, const at::Tensor& grad_y);

struct SwigluGrads {
  at::Tensor gate;
  at::Tensor up;
};

// Shapes  all [M, F], dense
SwigluGrads swiglu_grad(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& grad_y);

}  // namespace tenon
