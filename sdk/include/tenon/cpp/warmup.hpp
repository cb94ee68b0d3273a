// SPDX-License-Identifier: Apache-2.0
//
// Warmup for learning-rate schedules: the first steps, in which the learning rate rises from near
// zero, and the progress of a run after them. A schedule derives its options from WarmupOptions,
// binds them with bind_warmup, and calls warmup_factor first.
#ifndef TENON_CPP_WARMUP_HPP
#define TENON_CPP_WARMUP_HPP

#include <tenon/cpp/lr_scheduler.hpp>
#include <tenon/cpp/namespace.hpp>

#include <cstdint>
#include <optional>

TENON_NAMESPACE_BEGIN

/* Shape of a warmup of w steps, for step s from 0. */
enum class WarmupForm {
  kTenon,      /* (s + 1) / w: step 0 already trains, step w - 1 has the full learning rate */
  kHuggingFace /* s / w: step 0 has learning rate 0, step w has the full learning rate */
};

/* Options of a schedule with warmup. */
struct WarmupOptions {
  int64_t warmup_steps = 0;
  WarmupForm warmup_form = WarmupForm::kTenon;
  std::optional<int64_t> total_steps;
};

/* Binds `warmup_steps` and `warmup_form`. */
template <class O>
void bind_warmup(OptionBinder<O>& binder) {
  binder.field("warmup_steps", &O::warmup_steps).min(0).doc("length of the warmup, in steps");
  binder
      .choice("warmup_form",
              &O::warmup_form,
              {{"tenon", WarmupForm::kTenon}, {"huggingface", WarmupForm::kHuggingFace}})
      .doc(
          "factor at step s from 0: (s + 1) / warmup_steps (tenon) or s / warmup_steps "
          "(huggingface)");
}

/* Binds `total_steps`, for schedules that must know their end. */
template <class O>
void bind_total(OptionBinder<O>& binder) {
  binder.field("total_steps", &O::total_steps)
      .min(1)
      .doc("step at which the schedule ends; null: the end of the run");
}

/* Returns the factor of a step during the warmup, or nothing after it.
 *
 * Threads  [any] */
inline std::optional<double> warmup_factor(const WarmupOptions& options, uint64_t step) {
  const auto warmup = static_cast<uint64_t>(options.warmup_steps);
  if (step >= warmup) {
    return std::nullopt;
  }
  const uint64_t done = options.warmup_form == WarmupForm::kTenon ? step + 1 : step;
  return static_cast<double>(done) / static_cast<double>(warmup);
}

/* Returns the step at which a schedule ends: its own option, otherwise the length of the run.
 *
 * Errors   TENON_INVALID if neither is known
 * Threads  [any] */
inline uint64_t schedule_total(const std::optional<int64_t>& own_total, uint64_t run_total) {
  const uint64_t total = own_total ? static_cast<uint64_t>(*own_total) : run_total;
  TENON_CHECK(total > 0,
              "the run length in steps is unknown; set the schedule's option `total_steps`");
  return total;
}

/* Returns the progress at `step` after the warmup: 0 at the first step after the warmup, 1 from the
 * end of the schedule on. If the run is shorter than the warmup, the result is 1.
 *
 * Errors   TENON_INVALID if neither the options nor the run define the end
 * Threads  [any] */
inline double progress_after_warmup(const WarmupOptions& options,
                                    uint64_t step,
                                    uint64_t run_total) {
  const uint64_t total = schedule_total(options.total_steps, run_total);
  const auto warmup = static_cast<uint64_t>(options.warmup_steps);
  if (step >= total || total <= warmup) {
    return 1.0;
  }
  return static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
}

TENON_NAMESPACE_END

#endif
