// SPDX-License-Identifier: Apache-2.0
//
// Decay schedules from 1 to a floor: shared options and decay shapes.
#pragma once

#include <tenon/cpp/options.hpp>
#include <tenon/cpp/warmup.hpp>

#include <cmath>
#include <cstdint>

// Base of a decay schedule's options.
struct FallOptions : tenon::WarmupOptions {
  double min_ratio = 0.0;
};

// Binds warmup, `total_steps` and `min_ratio`.
template <class O>
void bind_fall(tenon::OptionBinder<O>& binder) {
  tenon::bind_warmup(binder);
  tenon::bind_total(binder);
  binder.field("min_ratio", &O::min_ratio)
      .min(0)
      .max(1)
      .doc("final factor, kept after the end of the schedule");
}

// Decay shapes: 1 at progress 0, 0 at progress 1.
inline double fall_linearly(double progress) {
  return 1.0 - progress;
}
inline double fall_along_cosine(double progress) {
  constexpr double kPi = 3.14159265358979323846;
  return 0.5 * (1.0 + std::cos(kPi * progress));
}
inline double fall_by_square_root(double progress) {
  return 1.0 - std::sqrt(progress);
}

// Schedule that decays from the end of its warmup to its end, with one shape.
template <double (*kShape)(double)>
class FallingSchedule : public tenon::LrScheduler {
 public:
  using Options = FallOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fall(binder); }

  explicit FallingSchedule(const Options& options) : options_(options) {}

  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t total) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const double progress = tenon::progress_after_warmup(options_, step, total);
    return options_.min_ratio + (1.0 - options_.min_ratio) * kShape(progress);
  }

 private:
  Options options_;
};
