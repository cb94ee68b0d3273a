// SPDX-License-Identifier: Apache-2.0
//
// The schedule that falls along half a cosine from 1 to `min_ratio`.
//
// Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (ICLR 2017),
// equation 5, with one cycle.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/warmup.hpp>

#include <cmath>

namespace {

constexpr double kPi = 3.14159265358979323846;

struct CosineOptions : tenon::WarmupOptions {
  double min_ratio = 0.0;
};

class Cosine : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "cosine";
  static constexpr const char* kSummary =
      "falls along half a cosine to min_ratio, after an optional warmup";
  using Options = CosineOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    tenon::bind_warmup(binder);
    tenon::bind_total(binder);
    binder.field("min_ratio", &Options::min_ratio)
        .min(0)
        .max(1)
        .doc("factor at the end and after it");
  }

  explicit Cosine(const Options& options) : options_(options) {}

  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t total) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const double progress = tenon::progress_after_warmup(options_, step, total);
    return options_.min_ratio + (1.0 - options_.min_ratio) * 0.5 * (1.0 + std::cos(kPi * progress));
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Cosine)
