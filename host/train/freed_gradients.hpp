// SPDX-License-Identifier: Apache-2.0
//
// What remains of gradients that are freed in the backward, after the update of their flat group:
// their norms, and the first one that was non-finite.
// Invariant: once a gradient of a step is non-finite, no later group counts as finite.
// Threads: the train thread.
#pragma once

#include "host/optim/gradient_norm.hpp"
#include "host/tensor/exact_sum.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/train/non_finite_origin.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

class FreedGradients {
 public:
  explicit FreedGradients(const std::vector<FlatGroup>& groups);

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
  void add_on_device(size_t group);

  const std::vector<FlatGroup>& groups_;
  bool may_overflow_;  // fp64 gradients exist, so a sum of squares may be infinite without them
  // On the CPU: the sums of squares, and those with SquareScale::kSmall if may_overflow_.
  ExactSum squares_;
  ExactSum small_squares_;
  at::Tensor device_squares_;            // on a device: as GradientNorms::squares
  std::vector<at::Tensor> entry_norms_;  // by group, on a device; undefined without a gradient
  at::Tensor found_inf_;
  std::string first_;  // the first non-finite gradient
};

}  // namespace tenon
