// SPDX-License-Identifier: Apache-2.0
//
// What schedules share: the first steps, in which the rate rises from nearly nothing, and how far a
// run is between their end and its own. A schedule derives its options from WarmupOptions, binds
// them by bind_warmup, and asks warmup_factor first.
#ifndef TENON_CPP_WARMUP_HPP
#define TENON_CPP_WARMUP_HPP

#include <tenon/cpp/lr_scheduler.hpp>

#include <cstdint>
#include <optional>

namespace tenon {

/* How a rise of w steps begins and ends, with steps s counted from 0. */
enum class WarmupForm {
  kTenon,      /* (s + 1) / w: the first step already learns, step w - 1 has the full rate */
  kHuggingFace /* s / w: the first step has rate 0, step w has the full rate */
};

/* To derive a schedule's options from. */
struct WarmupOptions {
  int64_t warmup_steps = 0;
  WarmupForm warmup_form = WarmupForm::kTenon;
  std::optional<int64_t> total_steps;
};

/* Binds `warmup_steps` and `warmup_form`. */
template <class O>
void bind_warmup(OptionBinder<O>& binder) {
  binder.field("warmup_steps", &O::warmup_steps)
      .min(0)
      .doc("steps in which the rate rises to its full value");
  binder
      .choice("warmup_form",
              &O::warmup_form,
              {{"tenon", WarmupForm::kTenon}, {"huggingface", WarmupForm::kHuggingFace}})
      .doc("tenon: (s + 1) / warmup_steps in step s from 0; huggingface: s / warmup_steps");
}

/* Binds `total_steps`, for schedules that must know where they end. */
template <class O>
void bind_total(OptionBinder<O>& binder) {
  binder.field("total_steps", &O::total_steps)
      .min(1)
      .doc("step at which the schedule ends; null: with the run");
}

/* The factor of a step in the warmup, or nothing after it.  Threads [any] */
inline std::optional<double> warmup_factor(const WarmupOptions& options, uint64_t step) {
  const auto warmup = static_cast<uint64_t>(options.warmup_steps);
  if (step >= warmup) {
    return std::nullopt;
  }
  const uint64_t done = options.warmup_form == WarmupForm::kTenon ? step + 1 : step;
  return static_cast<double>(done) / static_cast<double>(warmup);
}

/* The step at which a schedule ends: its own option, else the run's length.
 * Errors   TENON_INVALID if neither says it
 * Threads  [any] */
inline uint64_t schedule_total(const std::optional<int64_t>& own_total, uint64_t run_total) {
  const uint64_t total = own_total ? static_cast<uint64_t>(*own_total) : run_total;
  TENON_CHECK(total > 0,
              "the length of the run in steps is not known; give the schedule an option "
              "`total_steps`");
  return total;
}

/* How much of the time after the warmup is over at `step`: 0 at its first step, 1 at the step where
 * the schedule ends, and from there on. A run that is shorter than its warmup has none of that
 * time: 1.
 * Errors   TENON_INVALID if neither the options nor the run say where it ends
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

}  // namespace tenon

#endif
