// SPDX-License-Identifier: Apache-2.0
//
// Inverse square root decay. Needs no run length.
//
// Source: Vaswani et al., Attention Is All You Need (NeurIPS 2017), equation 3, scaled to 1 at the
// end of the warmup.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/warmup.hpp>

#include <cmath>
#include <optional>

namespace {

struct InverseSqrtOptions : tenon::WarmupOptions {
  std::optional<int64_t> timescale;
};

class InverseSqrt : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "inverse_sqrt";
  static constexpr const char* kSummary = "inverse square root decay after an optional warmup";
  using Options = InverseSqrtOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    tenon::bind_warmup(binder);
    binder.field("timescale", &Options::timescale)
        .min(1)
        .doc(
            "steps after the warmup until the factor is 1 / sqrt(2); null: warmup_steps, or 10000 "
            "if that is 0");
  }

  explicit InverseSqrt(const Options& options)
      : options_(options),
        timescale_(static_cast<double>(
            options.timescale.value_or(options.warmup_steps > 0 ? options.warmup_steps : 10000))) {}

  double factor(uint64_t step, uint64_t) override {
    if (const auto rising = tenon::warmup_factor(options_, step)) {
      return *rising;
    }
    const auto after = static_cast<double>(step - static_cast<uint64_t>(options_.warmup_steps));
    return std::sqrt(timescale_ / (timescale_ + after));
  }

 private:
  Options options_;
  double timescale_;
};

}  // namespace

TENON_PLUGIN(InverseSqrt)
