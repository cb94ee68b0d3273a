// SPDX-License-Identifier: Apache-2.0
//
// silu(gate) * up for autograd: the part of a gated layer between products that are separate, as
// those of weights that are no matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tenon {

// Shapes  gate and up [..., F] fp32 on the CPU; the result is as they are
at::Tensor gated_product(const at::Tensor& gate, const at::Tensor& up);

// How to compute a result again, from tensors that its node keeps for its backward.
struct GatedFactors {
  at::Tensor gate;  // [M, F]
  at::Tensor up;    // [M, F]
};

// Returns the factors if gated_product() made `y` for autograd; nothing for other tensors, and
// after the backward of `y`.
std::optional<GatedFactors> gated_factors_of(const at::Tensor& y);

// Returns the result as [M, F], to the same bits; while gradients are recorded, by libtorch's
// operators.
at::Tensor compute_again(const GatedFactors& factors);

}  // namespace tenon
