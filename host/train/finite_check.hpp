// SPDX-License-Identifier: Apache-2.0
//
// The policy on steps whose losses or gradients are non-finite (GradientStatistics). On the CPU the
// result is known as soon as the gradients are final. On a device nothing waits for the result: the
// optimizer receives `found_inf`, and the host learns later which updates the device skipped.
// Under a loss scale, gradients may overflow. Such a step is skipped and lowers the scale, but is
// exempt from the policy on non-finite updates.
// Invariant: all ranks get the same result.
// Threads: the train thread.
#pragma once

#include "host/journal/run_state.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/train/gradient_statistics.hpp"
#include "host/train/non_finite_origin.hpp"
#include "host/train/run_services.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/update_guard.hpp"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>

namespace tenon {

class FiniteCheck final : public WithStateFields<FiniteCheck> {
 public:
  // Returns where this rank's values became non-finite.
  using FindOrigin = std::function<NonFiniteOrigin()>;

  // All are borrowed. Updates that a device skipped are subtracted from `state`.
  FiniteCheck(RunServices& run, RunState& state, const GradientStatistics& gradients);

  // ---- a step, in this order ----

  // Takes the result of the gradients that were measured last.
  void check();
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
  void exempt_overflow();
  std::string origin_among_ranks(const NonFiniteOrigin& mine);
  UpdateGuard::Origin later_origin();

  RunServices& run_;
  RunState& state_;
  const GradientStatistics& gradients_;
  UpdateGuard guard_;

  bool is_finite_ = true;    // as far as the host knows
  at::Tensor found_;         // [] f32: 1 if the step is non-finite, and not exempt
  at::Tensor found_inf_;     // [] f32
  at::Tensor scaler_skips_;  // [] f64: updates skipped by the loss scale since the last record
  bool has_late_skips_ = false;
};

}  // namespace tenon
