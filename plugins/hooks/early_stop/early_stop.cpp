// SPDX-License-Identifier: Apache-2.0
//
// Requests the end of the run when an evaluation metric stops improving.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cmath>
#include <cstdint>
#include <string>

namespace {

enum class Mode { kMin, kMax };

struct EarlyStopOptions {
  std::string metric = "eval/loss";
  Mode mode = Mode::kMin;
  int64_t patience = 3;
  double min_delta = 0.0;
};

class EarlyStop : public tenon::Hook, public tenon::Stateful {
 public:
  static constexpr const char* kType = "early_stop";
  static constexpr const char* kSummary = "stops the run when an evaluation metric stops improving";
  using Options = EarlyStopOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("metric", &Options::metric).non_empty().doc("metric to watch");
    binder.choice("mode", &Options::mode, {{"min", Mode::kMin}, {"max", Mode::kMax}})
        .doc("whether a smaller or a larger value is better");
    binder.field("patience", &Options::patience)
        .min(1)
        .doc("consecutive evaluations without improvement before the run stops");
    binder.field("min_delta", &Options::min_delta)
        .min(0)
        .doc("minimum change from the best value that counts as an improvement");
  }

  explicit EarlyStop(const Options& options) : options_(options) {}

  // Runs on rank 0 only, which has the metrics of all ranks. A request from one rank applies to
  // all.
  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_AFTER_EVALUATE});
    info.rank_0_only = 1;
  }

  void on_event(const tenon::Event& event) override {
    if (!is_about(event.message())) {
      return;
    }
    const std::optional<double> value = event.find_metric(options_.metric);
    if (!value) {
      TENON_FAIL(TENON_NOT_FOUND,
                 "early_stop.no_metric",
                 "the evaluation did not report the metric \"",
                 options_.metric,
                 "\" of option `metric`; check its name");
    }
    if (is_progress(*value)) {
      has_best_ = true;
      best_ = *value;
      num_without_progress_ = 0;
      return;
    }
    ++num_without_progress_;
    if (num_without_progress_ >= options_.patience) {
      event.request(TENON_REQUEST_STOP, reason());
    }
  }

  void snapshot(tenon::StateWriter& writer) override {
    writer.put_int("has_best", has_best_ ? 1 : 0);
    writer.put_double("best", best_);
    writer.put_int("num_without_progress", num_without_progress_);
  }

  void load(const tenon::StateReader& reader) override {
    has_best_ = reader.get_int("has_best") != 0;
    best_ = reader.get_double("best");
    num_without_progress_ = reader.get_int("num_without_progress");
  }

 private:
  // Whether an evaluation updates the metric. `family` is the prefix of the evaluation's metric
  // names; "" for data.eval.
  bool is_about(const std::string& family) const {
    if (!family.empty()) {
      return options_.metric.starts_with(family);
    }
    return !options_.metric.starts_with("next/") && !options_.metric.starts_with("test/");
  }

  // False for NaN.
  bool is_progress(double value) const {
    if (!has_best_) {
      return !std::isnan(value);
    }
    return options_.mode == Mode::kMin ? value < best_ - options_.min_delta
                                       : value > best_ + options_.min_delta;
  }

  std::string reason() const {
    const std::string times = num_without_progress_ == 1
                                  ? "1 evaluation"
                                  : tenon::concat(num_without_progress_, " evaluations");
    if (!has_best_) {
      return tenon::concat("early_stop: ", options_.metric, " was NaN in ", times);
    }
    return tenon::concat(
        "early_stop: ", options_.metric, " did not improve on ", best_, " in ", times);
  }

  Options options_;
  bool has_best_ = false;
  double best_ = 0.0;
  int64_t num_without_progress_ = 0;
};

}  // namespace

TENON_PLUGIN(EarlyStop)
