// SPDX-License-Identifier: Apache-2.0
//
// Quality of a regression: `mae` is the mean absolute error, `r2` the coefficient of determination,
//
//     r2 = 1 - sum (y - prediction)^2 / sum (y - mean(y))^2
//
// The host owns the states. It sums the first one over ranks and data ranges. Means and squared
// deviations are not sums, so the second state has its own `merge`.
//
// Source: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample
// Variances (COMPSTAT 1982), for `merge`.
#include <tenon/cpp/metric.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

class MyPlugin : public tenon::Metric {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "mean absolute error, and coefficient of determination";

  struct Options {
    bool in_training = false;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("in_training", &Options::in_training)
        .doc("also measure the batches of the training, which costs time in each step");
  }

  explicit MyPlugin(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("targets", {}, TENON_CLASS_FLOAT)
        .sum("errors", {kErrors})
        .state("targets", {kMoments}, TENON_F64, TENON_REDUCE_OWN)
        .metric("mae")
        .metric("r2")
        .periods(options_.in_training ? TENON_PERIOD_STEP | TENON_PERIOD_RUN : 0);
  }

  void update(const tenon::Exec& exec,
              const tenon::TensorList& inputs,
              tenon::MetricStates& states) override {
    const tenon::Tensor predictions = as_f64(exec, inputs[0]);
    const tenon::Tensor targets = as_f64(exec, inputs[1]);
    const int64_t n = targets.ref().numel();
    if (predictions.ref().numel() != n) {
      TENON_FAIL(TENON_INVALID,
                 "my_plugin.shapes",
                 "logits have shape ",
                 inputs[0].shape().text(),
                 " (expected the number of elements of targets, ",
                 inputs[1].shape().text(),
                 ")");
    }
    const auto* p = predictions.ref().data<double>();
    const auto* y = targets.ref().data<double>();
    auto* errors = states[0].mutable_data<double>();
    auto* moments = states[1].mutable_data<double>();
    for (int64_t i = 0; i < n; ++i) {
      errors[kAbsolute] += std::abs(y[i] - p[i]);
      errors[kSquared] += (y[i] - p[i]) * (y[i] - p[i]);
      const double sample[kMoments] = {1, y[i], 0};
      add_moments(sample, moments);
    }
  }

  // `states` comes before `others` in the order of ranks and data.
  void merge(const tenon::Exec&,
             tenon::MetricStates& states,
             const tenon::TensorList& others) override {
    add_moments(others[1].data<double>(), states[1].mutable_data<double>());
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TensorList& states) override {
    const auto* errors = states[0].data<double>();
    const auto* moments = states[1].data<double>();
    if (moments[kCount] == 0) {
      return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
    }
    return {errors[kAbsolute] / moments[kCount], 1 - errors[kSquared] / moments[kDeviations]};
  }

 private:
  enum Error { kAbsolute, kSquared, kErrors };
  enum Moment { kCount, kMean, kDeviations, kMoments };  // count, mean, sum of squared deviations

  // Adds the moments of a set of numbers to those of another.
  static void add_moments(const double* from, double* to) {
    const double count = to[kCount] + from[kCount];
    if (count == 0) {
      return;
    }
    const double distance = from[kMean] - to[kMean];
    to[kDeviations] += from[kDeviations] + distance * distance * to[kCount] * from[kCount] / count;
    to[kMean] += distance * from[kCount] / count;
    to[kCount] = count;
  }

  // Inputs have the dtype of the run's precision, any strides, and its device.
  static tenon::Tensor as_f64(const tenon::Exec& exec, const tenon::TensorRef& input) {
    if (input.device().type != TENON_CPU) {
      TENON_FAIL(TENON_UNSUPPORTED, "my_plugin.device", "this metric runs on a CPU only");
    }
    const tenon::Tensor wide =
        tenon::call_op(exec.host(), "aten::to.dtype", {input, tenon::Arg::dtype(TENON_F64)});
    return tenon::call_op(exec.host(), "aten::contiguous", {wide});
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
