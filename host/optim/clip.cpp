// SPDX-License-Identifier: Apache-2.0
#include "host/optim/clip.hpp"

#include "host/tensor/flat_pass.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

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
