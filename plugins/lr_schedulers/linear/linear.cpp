// SPDX-License-Identifier: Apache-2.0
//
// The schedule that falls on a straight line from 1 to `min_ratio`.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/warmup.hpp>

namespace {

struct LinearOptions : tenon::WarmupOptions {
  double min_ratio = 0.0;
};

class Linear : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "linear";
  static constexpr const char* kSummary = "falls linearly to min_ratio, after an optional warmup";
  using Options = LinearOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    tenon::bind_warmup(binder);
    tenon::bind_total(binder);
    binder.field("min_ratio", &Options::min_ratio)
        .min(0)
        .max(1)
        .doc("factor at the end and after it");
  }

  explicit Linear(const Options& options) : options_(options) {}

  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t total) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const double progress = tenon::progress_after_warmup(options_, step, total);
    return options_.min_ratio + (1.0 - options_.min_ratio) * (1.0 - progress);
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Linear)
