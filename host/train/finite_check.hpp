// SPDX-License-Identifier: Apache-2.0
//
// Whether the update of a step is finite: losses, auxiliary losses and gradients, of all ranks. On
// the CPU the answer is known as soon as the gradients are. On a device nothing waits for it: the
// optimizer is given `found_inf`, and the host hears later what the device has skipped.
// Under a loss scale gradients may overflow: such a step is skipped and lowers the scale, but it is
// exempt from the policy on non-finite updates.
// Invariant: all ranks come to the same answer.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/embedding/table_set.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/clip.hpp"
#include "host/optim/loss_scale.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/non_finite_origin.hpp"
#include "host/train/run_state/run_state.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/update_guard.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

class FiniteCheck final : public WithStateFields<FiniteCheck> {
 public:
  // All are borrowed.
  struct Parts {
    RunState& state;  // loses the updates that a device has skipped
    ParameterStore& parameters;
    ShardedParameters& flow;
    Collective& collective;
    Group* norms = nullptr;  // all ranks, on their device; null on the CPU, or with one rank
    TableSet* tables = nullptr;
    LossScale* loss_scale = nullptr;  // null except under fp16
    bool is_on_cpu = true;
    bool are_gradients_rewritten = false;  // by a hook, once they are final
  };
  // Where this rank's values became non-finite.
  using FindOrigin = std::function<NonFiniteOrigin()>;

  FiniteCheck(Parts parts, const NonFiniteRecipe& recipe);

  // ---- a step, in this order ----

  void begin_step();
  // Counts a loss: one that is NaN may have a finite gradient, and no meaning. False if it is known
  // to be non-finite; on a device it is not known yet.
  bool check_metric(const at::Tensor& sum, const at::Tensor& count);
  // The gradients of tables are non-finite.
  void fail_tables();
  // On the CPU: whether the losses of this rank are finite; and the same of all ranks, once they
  // have agreed.
  bool are_metrics_finite() const { return are_metrics_finite_; }
  void set_metrics_finite(bool are_finite) { are_metrics_finite_ = are_finite; }
  // Checks the final gradients, in one pass that gives their norm too.
  void check_gradients();
  // Checks again, after a hook has changed them. The norm that is reported stays the one from
  // before.
  void check_gradients_again();
  // Reports the step to the policy. `find_origin` is called only if the step is known to be
  // non-finite.
  void record(const FindOrigin& find_origin);
  // After the update, or in place of it: the loss scale rises or falls.
  void update_loss_scale(bool is_applied);

  // ---- its results ----

  // True if the update is skipped for it, as far as that is known.
  bool is_skipped() const { return !is_finite_ && !guard_.is_exempt(); }
  // For the optimizer: 1 if the device is to skip the update; undefined if it is made in any case.
  // Shapes  [] f32
  const at::Tensor& found_inf() const { return found_inf_; }
  // Waits for the device.
  bool is_found_on_device() const;
  // On a device: 1 if the step's losses are to be left out of means; undefined if they count.
  at::Tensor bad_losses() const;
  // The norm of all gradients, before clipping; undefined before the first step.
  // Shapes  [] f64, beside the gradients
  at::Tensor norm() const;
  // Multiplies the gradients so that their norm is at most `max_norm`.
  void clip_norm(double max_norm);
  // Puts the norm into the next record. On rank 0: all ranks have the same.
  void record_norm(MetricBook& metrics) const;
  // 1 or 0.  Shapes  [] f64
  at::Tensor applied(bool is_applied) const;

  // ---- between steps ----

  // Hears what a device has skipped since the last call; waits for it.
  void sync();
  // Puts the loss scale into the next record, and hears what it has cost; waits for the device.
  void sync_loss_scale(MetricBook& metrics);
  // True once if the host has heard of skipped updates only after their steps.
  bool take_late_skips() { return std::exchange(has_late_skips_, false); }
  UpdateGuard& guard() { return guard_; }
  const UpdateGuard& guard() const { return guard_; }

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("has_late_skips", self.has_late_skips_);
    f.field("scaler_skips", self.scaler_skips_);
  }

 private:
  bool is_alone() const { return parts_.collective.world_size() == 1; }
  void share_norm();
  void share_device_check();
  void exempt_overflow(const at::Tensor& norm);
  std::string origin_among_ranks(const NonFiniteOrigin& mine);
  UpdateGuard::Origin later_origin();

  Parts parts_;
  UpdateGuard guard_;

  bool is_finite_ = true;           // as far as the host knows
  bool are_metrics_finite_ = true;  // on the CPU
  std::optional<double> norm_;      // on the CPU
  at::Tensor metrics_;              // on a device: [] f64, finite if the step's losses are
  GradientNorms device_norms_;
  at::Tensor found_;         // [] f32: 1 if the step is non-finite, and not exempt
  at::Tensor found_inf_;     // [] f32
  at::Tensor overflow_;      // [] f32, under a loss scale: 1 if gradients are non-finite
  at::Tensor scaler_skips_;  // [] f64: updates that the loss scale has cost since the last record
  bool has_late_skips_ = false;
};

}  // namespace tenon
