// SPDX-License-Identifier: Apache-2.0
//
// The factor by which losses are multiplied under fp16, so that small gradients do not vanish. It
// falls if gradients overflow, and rises after many updates without overflow. It does not skip
// updates itself.
// Invariant: factor and counter are tensors on the device of the gradients, and nothing here waits
// for the device.
// Threads: the train thread.
// Source: Micikevicius et al., Mixed Precision Training (2018), section 3.2; the numbers and the
// order of events are as in torch.amp.GradScaler.
#pragma once

#include "host/tensor/state/state_tree.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace tenon {

struct LossScaleOptions {
  double first = 65536;
  double growth = 2;     // after `growth_interval` consecutive updates without overflow
  double backoff = 0.5;  // after an overflow
  int64_t growth_interval = 2000;
};

class LossScale final : public Stateful {
 public:
  explicit LossScale(at::Device device, const LossScaleOptions& options = {});

  // The factor for losses.
  // Shapes  [] f32
  const at::Tensor& scale() const { return scale_; }
  // The factor for gradients, 1 / scale().
  // Shapes  [] f64
  at::Tensor inverse() const;

  // Adjusts the factor. Call after the gradients of each step.
  // Shapes  overflow [] f32: 1 if a gradient was non-finite, else 0
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
