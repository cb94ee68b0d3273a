// SPDX-License-Identifier: Apache-2.0
#include "host/optim/gradient_norm.hpp"

#include "host/device/exact_squares.hpp"
#include "host/tensor/flat_pass.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace tenon {
namespace {

// A power of 2, so that products are exact unless they underflow. The square of the largest fp64
// value, 2^2048 times this squared, is far from both ends of the range.
const double kSmallFactor = std::ldexp(1, -600);

}  // namespace

void add_grad_squares(ExactSum& sum, const FlatGroup& group, SquareScale scale) {
  if (scale == SquareScale::kOne) {
    add_squares(sum, group.grad(), group.chunk());
  } else {
    add_squares(sum, group.grad().to(at::kDouble) * kSmallFactor, group.chunk());
  }
}

ExactSum grad_squares(const std::vector<FlatGroup>& groups, NormOf which, SquareScale scale) {
  ExactSum sum;
  for (const FlatGroup& group : groups) {
    if (group.any_has_grad() && (which == NormOf::kAll || group.sharing().is_counted)) {
      add_grad_squares(sum, group, scale);
    }
  }
  return sum;
}

double norm_of_squares(const std::function<ExactSum(SquareScale)>& squares) {
  const double sum = squares(SquareScale::kOne).value();
  return std::isinf(sum) ? std::sqrt(squares(SquareScale::kSmall).value()) / kSmallFactor
                         : std::sqrt(sum);
}

double grad_norm(const std::vector<FlatGroup>& groups, NormOf which) {
  return norm_of_squares([&](SquareScale scale) { return grad_squares(groups, which, scale); });
}

at::Tensor entry_grad_norms(const FlatGroup& group) {
  std::vector<at::Tensor> grads;
  for (size_t e = 0; e < group.entries().size(); ++e) {
    if (group.entries()[e].has_grad) {
      grads.push_back(group.grad_view(e));
    }
  }
  return at::stack(at::_foreach_norm(grads, 2, at::kDouble));
}

GradientNorms norms_of(at::Tensor squares, at::Tensor by_entry) {
  at::Tensor all = squares.defined() ? exact_root(squares) : at::linalg_vector_norm(by_entry, 2);
  return {std::move(squares), std::move(all), std::move(by_entry)};
}

GradientNorms device_grad_norms(const std::vector<FlatGroup>& groups) {
  const at::Device device = groups.empty() ? at::kCPU : groups.front().grad().device();
  at::Tensor squares = has_exact_squares(device) ? exact_zero(device) : at::Tensor();
  std::vector<at::Tensor> grads;
  std::vector<double> weights;  // 0 for gradients that other ranks count
  for (const FlatGroup& group : groups) {
    const bool is_counted = group.sharing().is_counted;
    if (squares.defined() && is_counted && group.any_has_grad()) {
      add_exact_squares(squares, group.grad(), group.chunk());
    }
    for (size_t e = 0; e < group.entries().size(); ++e) {
      if (group.entries()[e].has_grad) {
        grads.push_back(group.grad_view(e));
        weights.push_back(is_counted ? 1 : 0);
      }
    }
  }
  const at::Tensor by_entry = grads.empty() ? at::zeros({0}, at::kDouble)
                                            : at::stack(at::_foreach_norm(grads, 2, at::kDouble));
  GradientNorms norms = norms_of(std::move(squares), by_entry);
  if (!norms.squares.defined() && std::ranges::count(weights, 0) != 0) {
    norms.all = at::linalg_vector_norm(by_entry * at::tensor(weights, by_entry.options()), 2);
  }
  return norms;
}

}  // namespace tenon
