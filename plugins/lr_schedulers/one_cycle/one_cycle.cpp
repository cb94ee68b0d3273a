// SPDX-License-Identifier: Apache-2.0
//
// One-cycle schedule, equal at every step to PyTorch's OneCycleLR, which reaches its final value in
// the last step. Schedules only the learning rate, not the momentum.
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
      "one cycle: warm up to the full learning rate, then decay far below the start";
  using Options = OneCycleOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    tenon::bind_total(binder);
    binder.field("rise", &Options::rise)
        .exclusive_min(0)
        .exclusive_max(1)
        .doc("fraction of the steps in which the learning rate rises");
    binder
        .choice(
            "anneal", &Options::anneal, {{"cosine", Anneal::kCosine}, {"linear", Anneal::kLinear}})
        .doc("interpolation between learning rates: cosine or linear");
    binder.field("div_factor", &Options::div_factor)
        .min(1)
        .doc("ratio of the full learning rate to the first one");
    binder.field("final_div_factor", &Options::final_div_factor)
        .min(1)
        .doc("ratio of the first learning rate to the last one");
    binder.field("three_phase", &Options::three_phase)
        .doc("decay to the first learning rate in as many steps as the rise, then to the last one");
  }

  explicit OneCycle(const Options& options) : options_(options) {}

  bool needs_total() const override { return !options_.total_steps; }

  double factor(uint64_t step, uint64_t run_total) override {
    const auto total = static_cast<double>(tenon::schedule_total(options_.total_steps, run_total));
    const auto at = static_cast<double>(step);
    const double first = 1.0 / options_.div_factor;
    const double last = first / options_.final_div_factor;
    // End steps of the phases, possibly fractional.
    const double top = options_.rise * total - 1.0;
    const double end = total - 1.0;
    if (options_.three_phase) {
      const double back = 2.0 * options_.rise * total - 2.0;
      TENON_CHECK(back < end, "`three_phase` requires `rise` below 0.5, found ", options_.rise);
      return at <= top    ? between(first, 1.0, at, 0.0, top)
             : at <= back ? between(1.0, first, at, top, back)
                          : between(first, last, at, back, end);
    }
    return at <= top ? between(first, 1.0, at, 0.0, top) : between(1.0, last, at, top, end);
  }

 private:
  // Interpolates between two factors from step `begin` to step `end`, then stays constant.
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
