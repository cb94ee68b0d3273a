// SPDX-License-Identifier: Apache-2.0
#include "host/train/freed_gradients.hpp"

#include "host/device/exact_squares.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

namespace tenon {

FreedGradients::FreedGradients(const std::vector<FlatGroup>& groups)
    : groups_(groups), may_overflow_(std::ranges::any_of(groups, [](const FlatGroup& group) {
        return group.is_trainable() && group.dtype() == at::kDouble;
      })) {}

void FreedGradients::begin_step() {
  squares_ = {};
  small_squares_ = {};
  device_squares_ = at::Tensor();
  entry_norms_.assign(groups_.size(), at::Tensor());
  found_inf_ = at::Tensor();
  first_.clear();
}

bool FreedGradients::add(size_t group) {
  const FlatGroup& flat = groups_[group];
  if (!flat.grad().is_cpu()) {
    add_on_device(group);
    return true;
  }
  add_grad_squares(squares_, flat, SquareScale::kOne);
  if (may_overflow_) {
    add_grad_squares(small_squares_, flat, SquareScale::kSmall);
  }
  if (first_.empty() && !std::isfinite(norm())) {
    for (size_t e = flat.entries().size(); e-- > 0;) {
      if (flat.entries()[e].has_grad && !flat.grad_view(e).isfinite().all().item<bool>()) {
        first_ = flat.entries()[e].parameter.name;
      }
    }
  }
  return first_.empty();
}

void FreedGradients::add_on_device(size_t group) {
  const FlatGroup& flat = groups_[group];
  const at::Device device = flat.grad().device();
  if (has_exact_squares(device)) {
    if (!device_squares_.defined()) {
      device_squares_ = exact_zero(device);
    }
    add_exact_squares(device_squares_, flat.grad(), flat.chunk());
  }
  entry_norms_[group] = entry_grad_norms(flat);
  const at::Tensor found = at::isfinite(entry_norms_[group].sum()).logical_not().to(at::kFloat);
  found_inf_ = found_inf_.defined() ? at::maximum(found_inf_, found) : found;
}

double FreedGradients::norm() const {
  return norm_of_squares([this](SquareScale scale) {
    return scale == SquareScale::kSmall && may_overflow_ ? small_squares_ : squares_;
  });
}

GradientNorms FreedGradients::device_norms() const {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& of_group : entry_norms_) {
    if (of_group.defined()) {
      norms.push_back(of_group);
    }
  }
  return norms_of(device_squares_, norms.empty() ? at::zeros({0}, at::kDouble) : at::cat(norms));
}

NonFiniteOrigin FreedGradients::origin() const {
  return first_.empty()
             ? NonFiniteOrigin{OriginDistance::kUnknown, "a loss is non-finite"}
             : NonFiniteOrigin{OriginDistance::kGradient,
                               "the gradient of the parameter '" + first_ + "' is non-finite"};
}

}  // namespace tenon
