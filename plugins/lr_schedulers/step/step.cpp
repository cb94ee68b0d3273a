// SPDX-License-Identifier: Apache-2.0
//
// Step decay: multiplies the learning rate by `gamma` at given steps.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/warmup.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace {

struct StepOptions : tenon::WarmupOptions {
  std::vector<int64_t> milestones;
  std::optional<int64_t> every;
  double gamma = 0.1;
};

class Step : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "step";
  static constexpr const char* kSummary = "multiplies the learning rate by gamma at given steps";
  using Options = StepOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    tenon::bind_warmup(binder);
    binder.field("milestones", &Options::milestones)
        .min(1)
        .doc("increasing steps, counted from 0, at which the learning rate is multiplied by gamma");
    binder.field("every", &Options::every)
        .min(1)
        .doc(
            "instead of milestones: multiply every N steps after the warmup; null: use milestones");
    binder.field("gamma", &Options::gamma).exclusive_min(0).doc("factor per multiplication");
  }

  explicit Step(const Options& options) : options_(options) {
    const auto& milestones = options.milestones;
    TENON_CHECK(milestones.empty() == options.every.has_value(),
                "set exactly one of `milestones` and `every`");
    TENON_CHECK(std::adjacent_find(milestones.begin(), milestones.end(), std::greater_equal<>()) ==
                    milestones.end(),
                "`milestones` must be strictly increasing");
    TENON_CHECK(milestones.empty() || milestones.front() >= options.warmup_steps,
                "the first of `milestones` is ",
                milestones.empty() ? 0 : milestones.front(),
                ", which is before the end of the warmup at step ",
                options.warmup_steps);
  }

  double factor(uint64_t step, uint64_t) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const auto at = static_cast<int64_t>(step);
    const auto& milestones = options_.milestones;
    const int64_t times =
        options_.every
            ? (at - options_.warmup_steps) / *options_.every
            : std::upper_bound(milestones.begin(), milestones.end(), at) - milestones.begin();
    return std::pow(options_.gamma, static_cast<double>(times));
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Step)
