// SPDX-License-Identifier: Apache-2.0
//
// Cyclic numbers as points on a circle: each x becomes sin(2 pi x / period) and cos(2 pi x /
// period). The hours 23.9 and 0.1 are then close to each other, as they are on a clock.
//
// Shapes   f32 [B] or [B, n] becomes f32 [B, 2] or [B, 2n]
// Threads: an instance does not change after its constructor.
#include <tenon/cpp/feature.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

constexpr double kTwoPi = 6.28318530717958647692;

class MyPlugin : public tenon::Feature {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "sine and cosine of cyclic numbers";

  struct Options {
    double period = 24.0;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("period", &Options::period)
        .exclusive_min(0)
        .doc("distance after which numbers repeat, in their unit");
  }

  explicit MyPlugin(const Options& options) : period_(options.period) {}

  // Called once, before any data is read.
  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    if (inputs.size() != 1 || inputs[0].dtype != TENON_F32 || inputs[0].num_levels != 0) {
      TENON_FAIL(TENON_INVALID,
                 "my_plugin.input",
                 "the input must be one column of f32 with a fixed number of entries; convert "
                 "other numbers with the feature `cast`");
    }
    tenon::ColumnType out;
    out.dtype = TENON_F32;
    out.width = inputs[0].width == 0 ? 2 : inputs[0].width < 0 ? -1 : 2 * inputs[0].width;
    return {out};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    const int64_t num_samples = in.num_samples();
    const int64_t width = in.values().ndim() == 1 ? 1 : in.values().size(1);
    const auto* x = in.data<float>();
    auto* points = columns.output(0).values<float>({num_samples, 2 * width});
    for (int64_t i = 0; i < num_samples * width; ++i) {
      if (!std::isfinite(x[i])) {
        TENON_FAIL(TENON_INVALID,
                   "my_plugin.value",
                   "sample ",
                   i / width,
                   " has the non-finite number ",
                   x[i],
                   "; limit it with the feature `clip`, or remove the sample");
      }
      const double angle = kTwoPi * std::fmod(x[i], period_) / period_;
      points[2 * i] = static_cast<float>(std::sin(angle));
      points[2 * i + 1] = static_cast<float>(std::cos(angle));
    }
  }

 private:
  double period_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
