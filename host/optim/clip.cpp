// SPDX-License-Identifier: Apache-2.0
#include "host/optim/clip.hpp"

#include "host/tensor/flat_pass.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

constexpr double kNormOffset = 1e-6;

void scale_grads_by(std::vector<FlatGroup>& groups, double factor) {
  for (FlatGroup& group : groups) {
    if (group.any_has_grad()) {
      scale_flat(group.grad(), factor);
    }
  }
}

double largest_finite(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::max();
    case at::kHalf:
      return std::numeric_limits<at::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<at::BFloat16>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

// For gradients whose sum of squares overflows although their norms may be finite.
double norm_of_norms(const std::vector<const at::Tensor*>& grads) {
  double norm = 0;
  for (const at::Tensor* const grad : grads) {
    norm = std::hypot(norm, flat_norm(*grad));
  }
  return norm;
}

std::vector<const at::Tensor*> has_grad_grads(const std::vector<FlatGroup>& groups, NormOf which) {
  std::vector<const at::Tensor*> grads;
  for (const FlatGroup& group : groups) {
    if (group.any_has_grad() && (which == NormOf::kAll || group.sharing().is_counted)) {
      grads.push_back(&group.grad());
    }
  }
  return grads;
}

}  // namespace

void scale_grads(std::vector<FlatGroup>& groups, const at::Tensor& factor) {
  if (factor.is_cpu() && !groups.empty() && groups.front().grad().is_cpu()) {
    scale_grads_by(groups, factor.item<double>());
    return;
  }
  for (FlatGroup& group : groups) {
    if (group.any_has_grad()) {
      group.grad().mul_(factor.to(group.dtype()));
    }
  }
}

double grad_norm(const std::vector<FlatGroup>& groups, NormOf which) {
  const auto grads = has_grad_grads(groups, which);
  double sum = 0;
  for (const at::Tensor* const grad : grads) {
    sum += square_sum(*grad);
  }
  return std::isfinite(sum) ? std::sqrt(sum) : norm_of_norms(grads);
}

double grad_norm(const FlatGroup& group) {
  const double sum = square_sum(group.grad());
  return std::isfinite(sum) ? std::sqrt(sum) : flat_norm(group.grad());
}

at::Tensor device_grad_norms(const FlatGroup& group) {
  std::vector<at::Tensor> grads;
  for (size_t e = 0; e < group.entries().size(); ++e) {
    if (group.entries()[e].has_grad) {
      grads.push_back(group.grad_view(e));
    }
  }
  return at::stack(at::_foreach_norm(grads, 2, at::kDouble));
}

GradientNorms device_grad_norms(const std::vector<FlatGroup>& groups) {
  std::vector<at::Tensor> grads;
  std::vector<double> weights;  // 0 for gradients that other ranks count
  for (const FlatGroup& group : groups) {
    for (size_t e = 0; e < group.entries().size(); ++e) {
      if (group.entries()[e].has_grad) {
        grads.push_back(group.grad_view(e));
        weights.push_back(group.sharing().is_counted ? 1 : 0);
      }
    }
  }
  if (grads.empty()) {
    return {at::zeros({}, at::kDouble), at::zeros({0}, at::kDouble)};
  }
  const at::Tensor by_entry = at::stack(at::_foreach_norm(grads, 2, at::kDouble));
  if (std::ranges::all_of(weights, [](double weight) { return weight == 1; })) {
    return {at::linalg_vector_norm(by_entry, 2), by_entry};
  }
  const at::Tensor counted = by_entry * at::tensor(weights, by_entry.options());
  return {at::linalg_vector_norm(counted, 2), by_entry};
}

void clip_grad_norm(std::vector<FlatGroup>& groups, double norm, double max_norm) {
  const double factor = max_norm / (norm + kNormOffset);
  if (!(factor >= 1)) {  // true for NaN too: non-finite norms follow the formula
    scale_grads_by(groups, factor);
  }
}

void clip_grad_norm(std::vector<FlatGroup>& groups, const at::Tensor& norm, double max_norm) {
  scale_grads(groups, at::clamp_max(max_norm / (norm + kNormOffset), 1.0));
}

void clip_grad_value(std::vector<FlatGroup>& groups, double limit) {
  for (FlatGroup& group : groups) {
    clip_grad_value(group, limit);
  }
}

void clip_grad_value(FlatGroup& group, double limit) {
  // No finite element exceeds a limit that the dtype cannot represent, and clamp_() refuses it.
  if (group.any_has_grad() && limit <= largest_finite(group.grad().scalar_type())) {
    group.grad().clamp_(-limit, limit);
  }
}

}  // namespace tenon
