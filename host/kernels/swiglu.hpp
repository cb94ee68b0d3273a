// SPDX-License-Identifier: Apache-2.0
//
// silu(gate) * up of two adjacent halves, in fp32 on the CPU, without autograd. One pass over rows
// in each direction.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon {

// Shapes  gate_up [M, 2 F], dense: gates, then ups; the result is [M, F]
at::Tensor swiglu(const at::Tensor& gate_up);

// The gradient by both halves in one tensor, the layout that the preceding product needs.
// Shapes  gate_up [M, 2 F] and grad_y [M, F], dense; the result is [M, 2 F]
at::Tensor swiglu_grad(const at::Tensor& gate_up, const at::Tensor& grad_y);

}  // namespace tenon
