// SPDX-License-Identifier: Apache-2.0
//
// The end of a step: makes gradients final on all ranks, checks and clips them, and then updates
// parameters and tables or skips the update.
// With train.update_in_backward, each flat group is updated in the backward, as soon as its
// gradients are final, and its gradients are freed. Invariant: a skipped update changes no
// parameter, no optimizer state and no buffer. Exception: with updates in the backward, the groups
// before the first non-finite one are updated, and the run ends. Threads: the train thread; every
// rank calls the same functions.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/embedding/table_set.hpp"
#include "host/journal/run_state.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/loss_scale.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/freed_gradients.hpp"
#include "host/train/hook_view.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/parameter_averages.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

namespace tenon {

class ParameterUpdate {
 public:
  // All are borrowed.
  ParameterUpdate(RunServices& run,
                  RunState& state,
                  GradientStatistics& gradients,
                  FiniteCheck& finite_check,
                  LoopEvents& events,
                  HookView& view);
  ParameterUpdate(const ParameterUpdate&) = delete;
  ParameterUpdate& operator=(const ParameterUpdate&) = delete;

  // Called before the first forward of a step. Keeps the buffers, so that a skipped update can
  // restore them.
  void begin_step();
  // Fires before_optimizer_step and after_optimizer_step. Multiplies all gradients by `scale`, if
  // it is defined. Calls `on_final` when the gradients no longer change.
  // Shapes  scale [] f64
  void run(bool is_wanted,
           const at::Tensor& scale,
           const FiniteCheck::FindOrigin& find_origin,
           const std::function<void()>& on_final);

 private:
  void update_group(size_t group);
  void finish_gradients(const at::Tensor& scale);
  void finish_table_gradients(const at::Tensor& scale);
  void share_has_grad();
  void report_unused() const;
  void clip();
  void apply(double factor);
  void check_replicas();

  RunServices& run_;
  RunState& state_;
  GradientStatistics& gradients_;
  FiniteCheck& finite_check_;
  LoopEvents& events_;
  HookView& view_;
  bool has_state_buffers_;
  std::optional<FreedGradients> freed_;  // with train.update_in_backward
};

}  // namespace tenon
