// SPDX-License-Identifier: Apache-2.0
//
// Polynomial decay from 1 to `min_ratio`, equal to PyTorch's PolynomialLR at every step.
//
// Source: Liu, Rabinovich, Berg, ParseNet (2015), section 3.3, in the form that PyTorch documents.
#include <tenon/cpp/plugin.hpp>

#include <cmath>

#include "../falling.hpp"

namespace {

struct PolynomialOptions : FallOptions {
  double power = 1.0;
};

class Polynomial : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "polynomial";
  static constexpr const char* kSummary = "polynomial decay to min_ratio after an optional warmup";
  using Options = PolynomialOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_fall(binder);
    binder.field("power", &Options::power)
        .exclusive_min(0)
        .doc("exponent of the remaining fraction of the steps; 1: linear");
  }

  explicit Polynomial(const Options& options) : options_(options) {}

  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t total) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const double progress = tenon::progress_after_warmup(options_, step, total);
    return options_.min_ratio +
           (1.0 - options_.min_ratio) * std::pow(fall_linearly(progress), options_.power);
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Polynomial)
