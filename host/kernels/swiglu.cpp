// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/swiglu.hpp"

#include "host/kernels/row_math.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>

namespace tenon {
namespace {

constexpr int64_t kSwigluTask = 64;  // rows

// Gates and ups of an [M, 2 F] tensor.
at::Tensor first_half(const at::Tensor& gate_up) {
  return gate_up.narrow(1, 0, gate_up.size(1) / 2);
}
at::Tensor second_half(const at::Tensor& gate_up) {
  return gate_up.narrow(1, gate_up.size(1) / 2, gate_up.size(1) / 2);
}

void grad_into(const at::Tensor& gate,
               const at::Tensor& up,
               const at::Tensor& grad_y,
               const SwigluGrads& out) {
  const int64_t width = gate.size(1);
  const SwigluGradRows first{.gate = gate.const_data_ptr<float>(),
                             .up = up.const_data_ptr<float>(),
                             .stride = gate.stride(0),
                             .grad_y = grad_y.const_data_ptr<float>(),
                             .grad_gate = out.gate.mutable_data_ptr<float>(),
                             .grad_up = out.up.mutable_data_ptr<float>()};
  at::parallel_for(0, gate.size(0), kSwigluTask, [&](int64_t begin, int64_t end) {
    SwigluGradRows at = first;
    at.gate += begin * at.stride;
    at.up += begin * at.stride;
    at.grad_y += begin * width;
    at.grad_gate += begin * at.stride;
    at.grad_up += begin * at.stride;
    swiglu_grad_rows(at, end - begin, width);
  });
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  return swiglu(first_half(gate_up), second_half(gate_up));
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  const int64_t width = gate.size(1);
  at::Tensor y = at::empty(gate.sizes(), gate.options());
  const SwigluRows first{.gate = gate.const_data_ptr<float>(),
                         .up = up.const_data_ptr<float>(),
                         .stride = gate.stride(0),
                         .y = y.mutable_data_ptr<float>()};
  at::parallel_for(0, y.size(0), kSwigluTask, [&](int64_t begin, int64_t end) {
    SwigluRows at = first;
    at.gate += begin * at.stride;
    at.up += begin * at.stride;
    at.y += begin * width;
    swiglu_rows(at, end - begin, width);
  });
  return y;
}

at::Tensor swiglu_grad(const at::Tensor& gate_up, const at::Tensor& grad_y) {
  at::Tensor grad = at::empty_like(gate_up);
  grad_into(
      first_half(gate_up), second_half(gate_up), grad_y, {first_half(grad), second_half(grad)});
  return grad;
}

SwigluGrads swiglu_grad(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& grad_y) {
  SwigluGrads grads{at::empty_like(gate), at::empty_like(up)};
  grad_into(gate, up, grad_y, grads);
  return grads;
}

}  // namespace tenon
