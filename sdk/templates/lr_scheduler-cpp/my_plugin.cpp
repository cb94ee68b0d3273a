// SPDX-License-Identifier: Apache-2.0
//
// Polynomial decay of the learning rate to `end`, after an optional warmup:
//
//     factor = end + (1 - end) (1 - progress)^power
#include <tenon/cpp/lr_scheduler.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/warmup.hpp>

#include <cmath>
#include <cstdint>

namespace {

struct PolynomialOptions : tenon::WarmupOptions {
  double power = 2.0;
  double end = 0.0;
};

class MyPlugin : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "polynomial decay after an optional warmup";

  using Options = PolynomialOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    tenon::bind_warmup(binder);
    tenon::bind_total(binder);
    binder.field("power", &Options::power).exclusive_min(0).doc("exponent; 1 is a linear decay");
    binder.field("end", &Options::end)
        .min(0)
        .max(1)
        .doc("final factor, kept after the end of the schedule");
  }

  explicit MyPlugin(const Options& options) : options_(options) {
    if (options_.total_steps && *options_.total_steps <= options_.warmup_steps) {
      TENON_FAIL(TENON_INVALID,
                 "my_plugin.too_short",
                 "total_steps is ",
                 *options_.total_steps,
                 " (expected more than warmup_steps, ",
                 options_.warmup_steps,
                 ")");
    }
  }

  // The host rejects a recipe of unknown length if this is true.
  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t total) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const double progress = tenon::progress_after_warmup(options_, step, total);
    return options_.end + (1.0 - options_.end) * std::pow(1.0 - progress, options_.power);
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
