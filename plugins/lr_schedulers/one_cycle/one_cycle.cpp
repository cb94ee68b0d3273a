// SPDX-License-Identifier: Apache-2.0
//
// One rise and one fall over the whole run; step for step PyTorch's OneCycleLR, which reaches its
// end in the last step. It schedules the rate alone, and no momentum.
//
// Source: Smith and Topin, Super-Convergence: Very Fast Training of Neural Networks Using Large
// Learning Rates (2018), section 3, in the form that PyTorch documents.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/warmup.hpp>

#include <cmath>
#include <cstdint>
#include <optional>

namespace {

constexpr double kPi = 3.14159265358979323846;

enum class Anneal { kCosine, kLinear };

struct OneCycleOptions {
  std::optional<int64_t> total_steps;
  double rise = 0.3;
  Anneal anneal = Anneal::kCosine;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;
};

class OneCycle : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "one_cycle";
  static constexpr const char* kSummary =
      "one rise to the full rate and one fall far below the start";
  using Options = OneCycleOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    tenon::bind_total(binder);
    binder.field("rise", &Options::rise)
        .exclusive_min(0)
        .exclusive_max(1)
        .doc("share of the steps in which the rate rises");
    binder
        .choice(
            "anneal", &Options::anneal, {{"cosine", Anneal::kCosine}, {"linear", Anneal::kLinear}})
        .doc("the way between two rates: half a cosine, or a line");
    binder.field("div_factor", &Options::div_factor)
        .min(1)
        .doc("the first rate is the full one over this");
    binder.field("final_div_factor", &Options::final_div_factor)
        .min(1)
        .doc("the last rate is the first one over this");
    binder.field("three_phase", &Options::three_phase)
        .doc("fall as long as it rose, to the first rate, and only then to the last one");
  }

  explicit OneCycle(const Options& options) : options_(options) {}

  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t run_total) override {
    const auto total = static_cast<double>(tenon::schedule_total(options_.total_steps, run_total));
    const auto at = static_cast<double>(step);
    const double first = 1.0 / options_.div_factor;
    const double last = first / options_.final_div_factor;
    // The steps in which the phases end, fractions of a step included.
    const double top = options_.rise * total - 1.0;
    const double end = total - 1.0;
    if (options_.three_phase) {
      const double back = 2.0 * options_.rise * total - 2.0;
      TENON_CHECK(
          back < end,
          "`three_phase` needs time for its third phase: `rise` must be below one half, and "
          "is ",
          options_.rise);
      return at <= top    ? between(first, 1.0, at, 0.0, top)
             : at <= back ? between(1.0, first, at, top, back)
                          : between(first, last, at, back, end);
    }
    return at <= top ? between(first, 1.0, at, 0.0, top) : between(1.0, last, at, top, end);
  }

 private:
  // On the way from one rate, in step `begin`, to another, in step `end`, where it stays.
  double between(double from, double to, double at, double begin, double end) const {
    if (at >= end) {
      return to;
    }
    const double progress = (at - begin) / (end - begin);
    return options_.anneal == Anneal::kLinear
               ? from + (to - from) * progress
               : to + (from - to) * 0.5 * (1.0 + std::cos(kPi * progress));
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(OneCycle)
