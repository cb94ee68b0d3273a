// SPDX-License-Identifier: Apache-2.0
#include "host/device/exact_squares.hpp"

#include "host/device/gpu_module.hpp"
#include "host/error/assert.hpp"
#include "host/tensor/exact_sum.hpp"
#include "host/tensor/flat_pass.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

namespace tenon {
namespace {

// Looked up once: the module is loaded for the life of the process.
const GpuModule& gpu_kernels() {
  static const GpuModule* const module = loaded_gpu_module();
  TENON_ASSERT(module != nullptr && module->add_squares != nullptr, "the module has the kernels");
  return *module;
}

}  // namespace

bool has_exact_squares(at::Device device) {
  if (device.is_cpu()) {
    return true;
  }
  const GpuModule* const module = loaded_gpu_module();
  return module != nullptr && module->add_squares != nullptr;
}

at::Tensor exact_zero(at::Device device) {
  return at::zeros({kExactWords}, at::TensorOptions().dtype(at::kLong).device(device));
}

void add_exact_squares(at::Tensor& words, const at::Tensor& flat, int64_t chunk) {
  if (!flat.is_cpu()) {
    gpu_kernels().add_squares(words, flat, chunk);
    return;
  }
  ExactSum sum;
  add_squares(sum, flat, chunk);
  auto* const to = words.mutable_data_ptr<int64_t>();
  std::ranges::transform(sum.words(), std::span(to, kExactWords), to, std::plus<>());
}

at::Tensor exact_root(const at::Tensor& words) {
  if (!words.is_cpu()) {
    return gpu_kernels().exact_root(words);
  }
  std::array<int64_t, kExactWords> copy{};
  std::ranges::copy(std::span(words.const_data_ptr<int64_t>(), kExactWords), copy.begin());
  carry_exact(copy.data());
  return at::scalar_tensor(std::sqrt(exact_value(copy.data())), at::kDouble);
}

}  // namespace tenon
