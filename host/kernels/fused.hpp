// SPDX-License-Identifier: Apache-2.0
//
// Whether an operator of this folder runs its own kernels or libtorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace tenon {

// Own kernels serve fp32 on a CPU without autocast, not empty, unless the recipe asks for plain
// ones. `op` is the operator's name without namespace.
bool is_fused(std::string_view op, const at::Tensor& x);
bool is_fused(std::string_view op, at::ScalarType dtype, at::Device device);

}  // namespace tenon
