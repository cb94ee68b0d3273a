// SPDX-License-Identifier: Apache-2.0
#include "host/optim/clip.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace tenon {

void scale_grads(std::vector<FlatGroup>& groups, const at::Tensor& factor) {
  for (FlatGroup& group : groups) {
    if (group.any_touched()) {
      group.grad().mul_(factor.to(group.dtype()));
    }
  }
}

at::Tensor grad_norm(const std::vector<FlatGroup>& groups) {
  std::vector<at::Tensor> norms;
  for (const FlatGroup& group : groups) {
    if (group.any_touched()) {
      norms.push_back(at::linalg_vector_norm(group.grad(), 2).to(at::kDouble));
    }
  }
  if (norms.empty()) {
    return at::zeros({}, at::kDouble);
  }
  return norms.size() == 1 ? norms.front() : at::linalg_vector_norm(at::stack(norms), 2);
}

void clip_grad_norm(std::vector<FlatGroup>& groups, const at::Tensor& norm, double max_norm) {
  scale_grads(groups, at::clamp_max(max_norm / (norm + 1e-6), 1.0));
}

void clip_grad_value(std::vector<FlatGroup>& groups, double limit) {
  for (FlatGroup& group : groups) {
    if (group.any_touched()) {
      group.grad().clamp_(-limit, limit);
    }
  }
}

}  // namespace tenon
