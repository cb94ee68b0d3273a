// SPDX-License-Identifier: Apache-2.0
#include "host/train/freed_gradients.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>

namespace tenon {

void FreedGradients::begin_step() {
  norms_.assign(groups_.size(), 0);
  device_norms_.assign(groups_.size(), at::Tensor());
  found_inf_ = at::Tensor();
  first_.clear();
}

bool FreedGradients::add(size_t group) {
  const FlatGroup& flat = groups_[group];
  if (!flat.grad().is_cpu()) {
    device_norms_[group] = device_grad_norms(flat);
    const at::Tensor found = at::isfinite(device_norms_[group].sum()).logical_not().to(at::kFloat);
    found_inf_ = found_inf_.defined() ? at::maximum(found_inf_, found) : found;
    return true;
  }
  norms_[group] = grad_norm(flat);
  if (!std::isfinite(norms_[group]) && first_.empty()) {
    for (size_t e = flat.entries().size(); e-- > 0;) {
      if (flat.entries()[e].has_grad && !flat.grad_view(e).isfinite().all().item<bool>()) {
        first_ = flat.entries()[e].parameter.name;
      }
    }
  }
  return first_.empty();
}

double FreedGradients::norm() const {
  double norm = 0;
  for (const double of_group : norms_) {
    norm = std::hypot(norm, of_group);
  }
  return norm;
}

GradientNorms FreedGradients::device_norms() const {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& of_group : device_norms_) {
    if (of_group.defined()) {
      norms.push_back(of_group);
    }
  }
  if (norms.empty()) {
    return {at::zeros({}, at::kDouble), at::zeros({0}, at::kDouble)};
  }
  const at::Tensor by_entry = at::cat(norms);
  return {at::linalg_vector_norm(by_entry, 2), by_entry};
}

NonFiniteOrigin FreedGradients::origin() const {
  return first_.empty()
             ? NonFiniteOrigin{OriginDistance::kUnknown, "a loss is non-finite"}
             : NonFiniteOrigin{OriginDistance::kGradient,
                               "the gradient of the parameter '" + first_ + "' is non-finite"};
}

}  // namespace tenon
