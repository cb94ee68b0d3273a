// SPDX-License-Identifier: Apache-2.0
//
// Cosine cycles: each decays from 1 to `min_ratio`, then restarts. With `first_steps`, it equals
// PyTorch's CosineAnnealingWarmRestarts at every step; with `cycles`, the schedule of transformers
// with hard restarts.
//
// Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (ICLR 2017),
// equation 5.
#include <tenon/cpp/plugin.hpp>

#include <cmath>
#include <cstdint>
#include <optional>

#include "../falling.hpp"

namespace {

struct RestartOptions : FallOptions {
  std::optional<int64_t> first_steps;
  int64_t multiplier = 1;
  int64_t cycles = 1;
};

class CosineRestarts : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "cosine_restarts";
  static constexpr const char* kSummary =
      "cosine cycles from the full learning rate to min_ratio, each after a restart";
  using Options = RestartOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_fall(binder);
    binder.field("first_steps", &Options::first_steps)
        .min(1)
        .doc("length of the first cycle, in steps; null: equal cycles until the end");
    binder.field("multiplier", &Options::multiplier)
        .min(1)
        .doc("length of each cycle divided by the length of the previous one");
    binder.field("cycles", &Options::cycles)
        .min(1)
        .doc("number of equal cycles until the end, without first_steps");
  }

  explicit CosineRestarts(const Options& options) : options_(options) {
    const bool has_length = options.first_steps.has_value();
    TENON_CHECK(!has_length || options.cycles == 1,
                "`cycles` is ",
                options.cycles,
                ", but `first_steps` sets the lengths of cycles; remove one of them");
    TENON_CHECK(!has_length || !options.total_steps.has_value(),
                "`total_steps` has no effect with `first_steps`; remove it");
    TENON_CHECK(has_length || options.multiplier == 1,
                "`multiplier` is ",
                options.multiplier,
                ", which needs `first_steps`");
  }

  bool needs_total() const override { return !options_.first_steps && !options_.total_steps; }

  double factor(uint64_t step, uint64_t total) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const double progress = options_.first_steps ? progress_in_growing_cycles(step)
                                                 : progress_in_equal_cycles(step, total);
    return options_.min_ratio + (1.0 - options_.min_ratio) * fall_along_cosine(progress);
  }

 private:
  double progress_in_equal_cycles(uint64_t step, uint64_t total) const {
    const double progress = tenon::progress_after_warmup(options_, step, total);
    return progress >= 1.0 ? 1.0 : std::fmod(progress * static_cast<double>(options_.cycles), 1.0);
  }

  // Subtracts whole cycles. Their lengths grow, so that there are few, unless all are equal.
  double progress_in_growing_cycles(uint64_t step) const {
    auto length = static_cast<uint64_t>(*options_.first_steps);
    uint64_t at = step - static_cast<uint64_t>(options_.warmup_steps);
    if (options_.multiplier == 1) {
      at %= length;
    }
    while (at >= length) {
      at -= length;
      length *= static_cast<uint64_t>(options_.multiplier);
    }
    return static_cast<double>(at) / static_cast<double>(length);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(CosineRestarts)
