// SPDX-License-Identifier: Apache-2.0
//
// The gradients of a step as numbers: their norm over all ranks, whether they and the losses are
// finite, and clipping by the norm. FiniteCheck decides what follows for the update.
// Invariant: equal gradients give equal bits of the norm, on any mesh (sums over fixed chunks).
// Threads: the train thread. On a device nothing waits, unless a function says so.
#pragma once

#include "host/optim/gradient_norm.hpp"
#include "host/train/freed_gradients.hpp"
#include "host/train/run_services.hpp"

#include <ATen/core/Tensor.h>

#include <optional>

namespace tenon {

class GradientStatistics {
 public:
  // `run` is borrowed.
  explicit GradientStatistics(RunServices& run);

  // ---- a step, in this order ----

  void begin_step();
  // Includes a loss, since a NaN loss may have finite gradients. Returns false if it is known to be
  // non-finite. On a device it returns true, since the result is not known yet.
  bool add_loss(const at::Tensor& sum, const at::Tensor& count);
  // Makes the step non-finite because of gradients of tables.
  void fail_tables();
  // On the CPU: true if the losses of this rank are finite. Once ranks have agreed, the setter
  // stores the result for all ranks.
  bool are_losses_finite() const { return are_losses_finite_; }
  void set_losses_finite(bool are_finite) { are_losses_finite_ = are_finite; }
  // Computes the norm of the final gradients, and with it whether the step is finite. `freed` is
  // what remains of them if they were freed in the backward; otherwise null.
  void measure(const FreedGradients* freed = nullptr);
  // The same after a hook has changed the gradients. The reported norm stays that before.
  void measure_again();

  // ---- its results ----

  bool is_on_cpu() const { return run_.plan.context.gpu == nullptr; }
  // On the CPU: true if losses and gradients are finite.
  bool is_finite() const { return is_finite_; }
  // On a device: 1 if losses or gradients are non-finite.
  // Shapes  [] f32
  const at::Tensor& non_finite() const { return non_finite_; }
  // Under a loss scale: 1 if gradients are non-finite.
  // Shapes  [] f32
  const at::Tensor& overflow() const { return overflow_; }
  // On a device: 1 if the losses are finite; undefined if no loss was added.
  // Shapes  [] bool
  at::Tensor losses_finite() const;
  // The norm of all gradients, before clipping; undefined before the first step.
  // Shapes  [] f64, on the device of the gradients
  at::Tensor norm() const;
  // On a device: the norms by entry of the flat groups, as GradientNorms::by_entry.
  const GradientNorms& device_norms() const { return device_norms_; }
  // Multiplies the gradients so that their norm is at most `max_norm`.
  void clip(double max_norm);

 private:
  void share_norm(const FreedGradients* freed);
  void share_on_device();

  RunServices& run_;
  const bool are_rewritten_;  // a hook changes final gradients, on its rank
  bool is_finite_ = true;
  bool are_losses_finite_ = true;  // on the CPU
  std::optional<double> norm_;     // on the CPU
  at::Tensor losses_;              // on a device: [] f64, finite if the step's losses are finite
  GradientNorms device_norms_;
  at::Tensor non_finite_;
  at::Tensor overflow_;
};

}  // namespace tenon
