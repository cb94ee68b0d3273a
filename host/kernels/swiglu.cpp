// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/swiglu.hpp"

#include "host/kernels/row_math.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>

namespace tenon {
namespace {

constexpr int64_t kSwigluTask = 64;  // rows

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  const int64_t width = gate_up.size(1) / 2;
  at::Tensor y = at::empty({gate_up.size(0), width}, gate_up.options());
  const float* const in = gate_up.const_data_ptr<float>();
  float* const out = y.mutable_data_ptr<float>();
  at::parallel_for(0, y.size(0), kSwigluTask, [&](int64_t begin, int64_t end) {
    swiglu_rows(in + begin * 2 * width, out + begin * width, end - begin, width);
  });
  return y;
}

at::Tensor swiglu_grad(const at::Tensor& gate_up, const at::Tensor& grad_y) {
  const int64_t width = grad_y.size(1);
  at::Tensor grad = at::empty_like(gate_up);
  const float* const in = gate_up.const_data_ptr<float>();
  const float* const by_y = grad_y.const_data_ptr<float>();
  float* const out = grad.mutable_data_ptr<float>();
  at::parallel_for(0, grad_y.size(0), kSwigluTask, [&](int64_t begin, int64_t end) {
    swiglu_grad_rows(
        in + begin * 2 * width, by_y + begin * width, out + begin * 2 * width, end - begin, width);
  });
  return grad;
}

}  // namespace tenon
