// SPDX-License-Identifier: Apache-2.0
//
// Area under the ROC curve. Exact, from all samples, while they fit in `max_bytes`. Further samples
// are counted by score, in intervals that follow the scores (score_sketch.hpp).
// Source: Hanley, McNeil, The Meaning and Use of the Area under a ROC Curve (Radiology 1982).
//
// Shapes: N labels.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "../sample_collector.hpp"
#include "score_sketch.hpp"

namespace {

// Fewer intervals would not be within 1e-3 of the exact area at all rates of positives.
constexpr int64_t kFewestIntervals = 2048;

struct AucOptions : CollectOptions {
  int64_t thresholds = 200;
};

class Auc : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "auc";
  static constexpr const char* kSummary = "area under the ROC curve, exact or within 1e-3";
  using Options = AucOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_scores(binder);
    bind_max_bytes(binder,
                   "memory for samples over all ranks, bytes; further samples are counted in "
                   "intervals. 0: intervals only");
    binder.field("thresholds", &Options::thresholds)
        .min(2)
        .max(1000000)
        .doc("intervals of scores, with equal weights of one class; at least 2048 are used");
    bind_label_options(binder);
  }

  Auc(const Options& options, const tenon::CreateContext& context)
      : options_(options),
        collector_(
            options.max_bytes, SampleCollector::Groups::kNone, kFirstOfSamples, context.mesh) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_CLASS_ANY)
        .optional_port("sample_weight", {}, TENON_CLASS_FLOAT)
        .sum("no_numbers");
    collector_.describe(info);
    info.state("sketch", {ScoreSketch::rows_for(num_intervals()), 3}, TENON_F64, TENON_REDUCE_OWN);
    info.metric("auc").periods(options_.periods());
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    const ScoredSamples samples = scored_samples(inputs, options_.ignore_index, 2, -1);
    const at::Tensor is_nan_N = samples.scores_N.isnan()
                                    .logical_or(samples.labels_N.isnan())
                                    .logical_and(samples.weights_N.ne(0.0));
    states[kNoNumbers].add_(is_nan_N.sum(at::kDouble));
    const int64_t num_taken = collector_.take(states, samples);
    if (num_taken < samples.scores_N.numel()) {
      sketch(states[kSketch], samples, num_taken);
    }
  }

  void merge(const tenon::Exec&,
             tenon::TorchStates& states,
             const tenon::TorchInputs& others) override {
    const at::Tensor other = others[kSketch].to(at::kCPU).contiguous();
    const ScoreSketch from(other, num_intervals());
    change(states[kSketch],
           [&](ScoreSketch& sketch) { sketch.add(from.points(), from.num_samples()); });
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    if (const auto num_nan = static_cast<int64_t>(states[kNoNumbers].item<double>()); num_nan > 0) {
      warn_once(has_warned_of_nan_, num_nan, " samples have NaN as score or label, so auc is NaN");
      return {std::nan("")};
    }
    const int64_t num_others = collector_.num_ignored(states);
    const std::vector<Sample> samples = collector_.sorted(states).samples;
    if (num_others == 0) {
      return {area_under_curve(samples)};
    }
    const at::Tensor table = states[kSketch].to(at::kCPU).contiguous();
    const ScoreSketch sketch(table, num_intervals());
    if (sketch.num_samples() != num_others) {
      warn_once(
          has_warned_,
          "auc is NaN until its period starts over: the checkpoint of an earlier version has ",
          num_others - sketch.num_samples(),
          " samples beyond max_bytes, whose scores are lost");
      return {std::nan("")};
    }
    if (options_.max_bytes > 0) {
      warn_once(has_warned_,
                collector_.num_collected(states) + num_others,
                " samples exceed max_bytes (",
                options_.max_bytes,
                "); auc is computed from ",
                num_intervals(),
                " intervals of scores, within 1e-3");
    }
    std::vector<ScorePoint> points = sketch.points();
    for (const Sample& sample : samples) {
      points.push_back(point_of(sample.score, sample.label, sample.weight));
    }
    return {area_under_points(std::move(points))};
  }

 private:
  enum State : size_t { kNoNumbers, kFirstOfSamples, kSketch = kFirstOfSamples + 3 };

  static ScorePoint point_of(double score, double label, double weight) {
    return label > 0.5 ? ScorePoint{score, weight, 0.0} : ScorePoint{score, 0.0, weight};
  }

  int64_t num_intervals() const { return std::max(options_.thresholds, kFewestIntervals); }

  template <class... Parts>
  void warn_once(bool& has_warned, const Parts&... parts) {
    if (!has_warned) {
      has_warned = true;
      host().log_warn(parts...);
    }
  }

  // Changes a table, which may be on a GPU.
  template <class Change>
  void change(const at::Tensor& state, Change&& change_sketch) const {
    const at::Tensor table = state.to(at::kCPU).contiguous();
    ScoreSketch sketch(table, num_intervals());
    change_sketch(sketch);
    if (!table.is_same(state)) {
      state.copy_(table);
    }
  }

  // Adds the samples from number `first` on.
  void sketch(const at::Tensor& state, const ScoredSamples& samples, int64_t first) const {
    const int64_t n = samples.scores_N.numel() - first;
    const auto rest = [&](const at::Tensor& all_N) {
      return all_N.narrow(0, first, n).to(at::kCPU).contiguous();
    };
    const at::Tensor scores_N = rest(samples.scores_N);
    const at::Tensor labels_N = rest(samples.labels_N);
    const at::Tensor weights_N = rest(samples.weights_N);
    std::vector<ScorePoint> points;
    for (int64_t i = 0; i < n; ++i) {
      const double score = scores_N.const_data_ptr<double>()[i];
      const double weight = weights_N.const_data_ptr<double>()[i];
      if (weight != 0.0 && !std::isnan(score)) {
        points.push_back(point_of(score, labels_N.const_data_ptr<double>()[i], weight));
      }
    }
    change(state, [&](ScoreSketch& sketch) { sketch.add(points, n); });
  }

  Options options_;
  SampleCollector collector_;
  bool has_warned_ = false;
  bool has_warned_of_nan_ = false;
};

}  // namespace

TENON_PLUGIN(Auc)
