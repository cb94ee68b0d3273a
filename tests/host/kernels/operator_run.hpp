// SPDX-License-Identifier: Apache-2.0
//
// Runs an operator forward and backward, for tests of host/kernels: with fixed data, other kernels
// or another number of threads.
#pragma once

#include "host/kernels/operators.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

using Tensors = std::vector<at::Tensor>;

// An operator of tensors that have gradients.
using Operator = std::function<at::Tensor(const Tensors&)>;

// Its value, then the gradients of `inputs` for fixed gradients of the value. Inputs that are not
// defined are passed on.
inline Tensors run(const Operator& op, const Tensors& inputs, at::ScalarType dtype) {
  register_operators();
  Tensors leaves;
  Tensors of;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.defined() ? input.to(dtype).detach().clone().requires_grad_(true)
                                     : input);
    if (input.defined()) {
      of.push_back(leaves.back());
    }
  }
  const at::AutoGradMode record(true);
  const at::Tensor y = op(leaves);
  Tensors out = {y.detach()};
  const at::Tensor seed = made(99, y.sizes().vec()).to(y.scalar_type());
  for (at::Tensor& grad : torch::autograd::grad({y}, of, {seed})) {
    out.push_back(std::move(grad));
  }
  return out;
}

inline double relative_difference(const at::Tensor& got, const at::Tensor& want) {
  return (got.to(at::kDouble) - want.to(at::kDouble)).norm().item<double>() /
         (want.to(at::kDouble).norm().item<double>() + 1e-9);
}

inline void check_near(const Tensors& got, const Tensors& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].sizes() == want[i].sizes());
    CHECK(relative_difference(got[i], want[i]) < tolerance);
  }
}

inline void check_equal(const Tensors& got, const Tensors& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(at::equal(got[i], want[i]));
  }
}

// Gradients in fp64 against differences of the value.
inline void check_differences(const Operator& op, const Tensors& inputs) {
  constexpr double kStep = 1e-5;
  const Tensors found = run(op, inputs, at::kDouble);
  const at::Tensor seed = made(99, found[0].sizes().vec()).to(found[0].scalar_type());
  size_t gradient = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      continue;
    }
    at::Tensor slopes = at::zeros({inputs[i].numel()}, at::kDouble);
    for (int64_t k = 0; k < inputs[i].numel(); ++k) {
      double sides[2] = {};
      for (int side = 0; side < 2; ++side) {
        Tensors moved = inputs;
        moved[i] = inputs[i].clone();
        moved[i].view({-1})[k] += side == 0 ? -kStep : kStep;
        sides[side] = (op(moved) * seed).sum().item<double>();
      }
      slopes[k] = (sides[1] - sides[0]) / (2 * kStep);
    }
    CAPTURE(i);
    CHECK(relative_difference(found[gradient].reshape({-1}), slopes) < 1e-7);
    ++gradient;
  }
}

inline Tensors run_plain(const Operator& op, const Tensors& inputs, at::ScalarType dtype) {
  const PolicyScope plain(all_kernels("plain"));
  return run(op, inputs, dtype);
}

// Bits must not depend on the number of threads; products are those of one library.
inline void check_threads(const Operator& op, const Tensors& inputs) {
  const PolicyScope one_library(forced_kernel("linear", "mkl"));
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensors want = run(op, inputs, at::kFloat);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    CAPTURE(threads);
    check_equal(run(op, inputs, at::kFloat), want);
  }
  at::set_num_threads(before);
}

inline std::string message_of(const std::function<void()>& body) {
  register_operators();
  try {
    body();
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "";
}

// Whether a second derivative is refused.
inline std::string second_derivative_of(const Operator& op, const at::Tensor& x) {
  return message_of([&] {
    const at::AutoGradMode record(true);
    const at::Tensor leaf = x.detach().clone().requires_grad_(true);
    const at::Tensor y = op({leaf});
    torch::autograd::grad({y.sum()}, {leaf}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  });
}

}  // namespace tenon
