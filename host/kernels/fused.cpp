// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/fused.hpp"

#include "host/kernels/kernel_choice.hpp"

#include <ATen/autocast_mode.h>

namespace tenon {

bool is_fused(std::string_view op, at::ScalarType dtype, at::Device device) {
  return device.is_cpu() && dtype == at::kFloat && !at::autocast::is_autocast_enabled(at::kCPU) &&
         !is_plain(op);
}

bool is_fused(std::string_view op, const at::Tensor& x) {
  return x.numel() > 0 && is_fused(op, x.scalar_type(), x.device());
}

}  // namespace tenon
