// SPDX-License-Identifier: Apache-2.0
//
// What remains of gradients that are freed in the backward, after the update of their flat group:
// their norms, and the first one that was non-finite.
// Invariant: once a gradient of a step is non-finite, no later group counts as finite.
// Threads: the train thread.
#pragma once

#include "host/optim/clip.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/train/non_finite_origin.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

class FreedGradients {
 public:
  explicit FreedGradients(const std::vector<FlatGroup>& groups) : groups_(groups) {}

  void begin_step();
  // Notes the final gradients of a group. On the CPU, returns false if a gradient of the step is
  // non-finite so far. On a device, found_inf() has the result.
  bool add(size_t group);
  // Shapes  [] f32: 1 if a gradient of the step is non-finite so far; undefined on the CPU
  const at::Tensor& found_inf() const { return found_inf_; }

  // Norms of all gradients of the step, on the CPU and on a device.
  double norm() const;
  GradientNorms device_norms() const;
  // On the CPU, names the first non-finite gradient in the order of the backward.
  NonFiniteOrigin origin() const;

 private:
  const std::vector<FlatGroup>& groups_;
  std::vector<double> norms_;             // by group, on the CPU
  std::vector<at::Tensor> device_norms_;  // by group, on a device; undefined without a gradient
  at::Tensor found_inf_;
  std::string first_;  // the first non-finite gradient
};

}  // namespace tenon
