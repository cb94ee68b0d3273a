// SPDX-License-Identifier: Apache-2.0
//
// The factor that losses are multiplied with under fp16, so that small gradients do not vanish: it
// falls where gradients overflow and rises where they have not for long. It skips nothing itself.
// Invariant: factor and counter are tensors of the device that gradients are on, and nothing here
// waits for it.
// Threads: the train thread.
// Source: Micikevicius et al., Mixed Precision Training (2018), section 3.2; the numbers and the
// order of events are those of torch.amp.GradScaler.
#pragma once

#include "host/tensor/state/state_tree.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace tenon {

struct LossScaleOptions {
  double first = 65536;
  double growth = 2;     // after `interval` consecutive updates without overflow
  double backoff = 0.5;  // at an overflow
  int64_t growth_interval = 2000;
};

class LossScale final : public Stateful {
 public:
  explicit LossScale(at::Device device, const LossScaleOptions& options = {});

  // What losses are multiplied with.
  // Shapes  [] f32
  const at::Tensor& scale() const { return scale_; }
  // What gradients are multiplied with.
  // Shapes  [] f64
  at::Tensor inverse() const;

  // After the gradients of a step.
  // Shapes  overflow [] f32, 1 where one was non-finite, else 0
  void update(const at::Tensor& overflow);

  void snapshot(StateTree& tree, const std::string& prefix) const override;
  // Errors  state.missing_entry, state.wrong_type
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  LossScaleOptions options_;
  at::Tensor scale_;
  at::Tensor growth_tracker_;  // [] i32: updates since the last change
};

}  // namespace tenon
