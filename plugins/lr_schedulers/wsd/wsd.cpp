// SPDX-License-Identifier: Apache-2.0
//
// Warmup, stable, decay: the full learning rate for most of the run, then a decay at the end.
//
// Source: Hu et al., MiniCPM: Unveiling the Potential of Small Language Models with Scalable
// Training Strategies (COLM 2024), section 4; the square root: Haegele et al., Scaling Laws and
// Compute-Optimal Training Beyond Fixed Training Durations (NeurIPS 2024), section 3.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include "../falling.hpp"

namespace {

enum class Shape { kLinear, kCosine, kSqrt };

struct WsdOptions : FallOptions {
  std::optional<int64_t> decay_steps;
  Shape shape = Shape::kSqrt;
};

class Wsd : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "wsd";
  static constexpr const char* kSummary =
      "warmup, constant learning rate, and decay to min_ratio in the last steps";
  using Options = WsdOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_fall(binder);
    binder.field("decay_steps", &Options::decay_steps)
        .min(1)
        .doc("length of the final decay, steps; null: a tenth of all steps, rounded up");
    binder
        .choice("shape",
                &Options::shape,
                {{"linear", Shape::kLinear}, {"cosine", Shape::kCosine}, {"sqrt", Shape::kSqrt}})
        .doc("decay shape for progress p in [0, 1]: 1 - p, (1 + cos(pi p)) / 2, or 1 - sqrt(p)");
  }

  explicit Wsd(const Options& options) : options_(options) {}

  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t run_total) override {
    const uint64_t total = tenon::schedule_total(options_.total_steps, run_total);
    const auto warmup = static_cast<uint64_t>(options_.warmup_steps);
    const uint64_t decay =
        options_.decay_steps ? static_cast<uint64_t>(*options_.decay_steps) : (total + 9) / 10;
    TENON_CHECK(warmup + decay <= total,
                "warmup_steps ",
                warmup,
                " and decay_steps ",
                decay,
                " exceed the ",
                total,
                " steps of the schedule");
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const uint64_t begin = total - decay;
    if (step < begin) {
      return 1.0;
    }
    const double progress =
        std::min(1.0, static_cast<double>(step - begin) / static_cast<double>(decay));
    return options_.min_ratio + (1.0 - options_.min_ratio) * fall(progress);
  }

 private:
  double fall(double progress) const {
    switch (options_.shape) {
      case Shape::kLinear:
        return fall_linearly(progress);
      case Shape::kCosine:
        return fall_along_cosine(progress);
      case Shape::kSqrt:
        break;
    }
    return fall_by_square_root(progress);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Wsd)
