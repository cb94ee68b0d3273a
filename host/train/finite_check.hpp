// SPDX-License-Identifier: Apache-2.0
//
// Checks whether the update of a step is finite: losses, auxiliary losses and gradients of all
// ranks. On the CPU the result is known as soon as the gradients are final. On a device nothing
// waits for the result: the optimizer receives `found_inf`, and the host learns later which updates
// the device skipped.
// Under a loss scale, gradients may overflow. Such a step is skipped and lowers the scale, but is
// exempt from the policy on non-finite updates.
// Invariant: all ranks get the same result.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/embedding/table_set.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/gradient_norm.hpp"
#include "host/optim/loss_scale.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/freed_gradients.hpp"
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
    RunState& state;  // updates that a device skipped are subtracted
    ParameterStore& parameters;
    ShardedParameters& sharded;
    RankGroups& ranks;
    TableSet* tables = nullptr;
    LossScale* loss_scale = nullptr;  // null except under fp16
    bool is_on_cpu = true;
    bool are_gradients_rewritten = false;  // a hook changes final gradients
  };
  // Returns where this rank's values became non-finite.
  using FindOrigin = std::function<NonFiniteOrigin()>;

  FiniteCheck(Parts parts, const NonFiniteRecipe& recipe);

  // ---- a step, in this order ----

  void begin_step();
  // Includes a loss in the check, since a NaN loss may have finite gradients. Returns false if the
  // loss is known to be non-finite. On a device it returns true, since the result is not known yet.
  bool check_metric(const at::Tensor& sum, const at::Tensor& count);
  // Marks the step as non-finite because of gradients of tables.
  void fail_tables();
  // On the CPU: true if the losses of this rank are finite. Once ranks have agreed, the setter
  // stores the result for all ranks.
  bool are_metrics_finite() const { return are_metrics_finite_; }
  void set_metrics_finite(bool are_finite) { are_metrics_finite_ = are_finite; }
  // Checks the final gradients, in one pass that also computes their norm. `freed` is what remains
  // of them if they were freed in the backward; otherwise null.
  void check_gradients(const FreedGradients* freed = nullptr);
  // Checks the gradients again after a hook has changed them. The reported norm stays the same.
  void check_gradients_again();
  // Reports the step to the policy. Calls `find_origin` only if the step is known to be non-finite.
  void record(const FindOrigin& find_origin);
  // Raises or lowers the loss scale, after the update was applied or skipped.
  void update_loss_scale(bool is_applied);

  // ---- its results ----

  // True if the update is skipped as non-finite, as far as the host knows.
  bool is_skipped() const { return !is_finite_ && !guard_.is_exempt(); }
  // For the optimizer: 1 if the device skips the update; undefined if it always applies the update.
  // Shapes  [] f32
  const at::Tensor& found_inf() const { return found_inf_; }
  // Returns true if found_inf() is defined and non-zero. Waits for the device.
  bool is_found_on_device() const;
  // On a device: 1 if the step's losses are excluded from means; undefined if they always count.
  at::Tensor bad_losses() const;
  // The norm of all gradients, before clipping; undefined before the first step.
  // Shapes  [] f64, on the device of the gradients
  at::Tensor norm() const;
  // Multiplies the gradients so that their norm is at most `max_norm`.
  void clip_norm(double max_norm);
  // Adds the norm to the next record. Does so on rank 0 only, since all ranks have the same norm.
  void record_norm(MetricBook& metrics) const;
  // Returns 1 if both host and device apply the update, otherwise 0.
  // Shapes  [] f64
  at::Tensor applied(bool is_applied) const;

  // ---- between steps ----

  // Waits for the device, and accounts for updates that it has skipped since the last call.
  void sync();
  // Waits for the device, adds the loss scale to the next record, and accounts for updates that the
  // loss scale has skipped.
  void sync_loss_scale(MetricBook& metrics);
  // Returns true once if the host learned of skipped updates only after their steps.
  bool take_late_skips() { return std::exchange(has_late_skips_, false); }
  UpdateGuard& guard() { return guard_; }
  const UpdateGuard& guard() const { return guard_; }

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("has_late_skips", self.has_late_skips_);
    f.field("scaler_skips", self.scaler_skips_);
  }

 private:
  bool is_alone() const { return parts_.ranks.role().is_alone(); }
  void share_norm(const FreedGradients* freed);
  void share_device_check();
  void exempt_overflow(const at::Tensor& norm);
  std::string origin_among_ranks(const NonFiniteOrigin& mine);
  UpdateGuard::Origin later_origin();

  Parts parts_;
  UpdateGuard guard_;

  bool is_finite_ = true;           // as far as the host knows
  bool are_metrics_finite_ = true;  // on the CPU
  std::optional<double> norm_;      // on the CPU
  at::Tensor metrics_;              // on a device: [] f64, finite if the step's losses are finite
  GradientNorms device_norms_;
  at::Tensor found_;         // [] f32: 1 if the step is non-finite, and not exempt
  at::Tensor found_inf_;     // [] f32
  at::Tensor overflow_;      // [] f32, under a loss scale: 1 if gradients are non-finite
  at::Tensor scaler_skips_;  // [] f64: updates skipped by the loss scale since the last record
  bool has_late_skips_ = false;
};

}  // namespace tenon
