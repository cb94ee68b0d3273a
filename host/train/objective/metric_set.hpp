// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a run on one model's outputs: in evaluations, and in training if a metric declares
// it. Returns values by name; the training loop writes them.
// Invariant: functions that are called in each step do not wait for a device.
// Threads: the train thread.
#pragma once

#include "host/model/microbatch_state.hpp"
#include "host/plugin/metric_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/objective/input_binding.hpp"
#include "host/train/objective/metric_state.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct NamedMetric {
  std::string name;
  std::map<std::string, std::string> inputs;  // port to MODEL.OUTPUT or batch field
  MetricProxy proxy;
};

class MetricSet final : public Stateful {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;

  // Binds each port to an output of the model or a field of the batch.
  // Errors  metric.unknown_input, with the name and the available names; metric.input_mismatch;
  //         plugin.bad_result for an invalid name of a metric
  MetricSet(std::vector<NamedMetric> metrics,
            const ModelGraph& graph,
            const std::string& model_name,
            const ExecBase& base);
  ~MetricSet();
  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  bool is_empty() const { return entries_.empty(); }
  // True if any metric is also computed in training.
  bool has_training() const { return !training_metrics_.empty(); }

  // The models' values that the metrics read.
  std::vector<uint32_t> values_read() const;

  // Checks that a dataset has the fields that the metrics read.
  // Errors  metric.unknown_input, metric.input_mismatch
  void check_fields(const std::vector<FieldInfo>& fields, const std::string& dataset) const;

  // Names of the training metrics, as far as metrics declare them: NAME (NAME/METRIC for a
  // component with several metrics) since the last record, NAME/window since the window began,
  // NAME/run since the run began.
  const std::vector<std::string>& training_metrics() const { return training_metrics_; }

  // Names of the metrics of an evaluation, without the evaluation's prefix.
  std::vector<std::string> evaluation_metrics() const;

  // Runs an evaluation: call begin_evaluation, evaluate for each batch after its forward, then
  // end_evaluation. end_evaluation is a collective call that waits for the device and returns the
  // same metrics on all ranks. If `series` is not empty, it also returns each metric as NAME/run,
  // over all evaluations of that series. Metrics see whole sequences and values: where ranks
  // divide them, `evaluate` and `train` are collective calls. The first of the ranks that divide
  // sequences updates the states.
  // Errors  PluginError, plugin.bad_result
  void begin_evaluation();
  void evaluate(const MicrobatchState& values, const Batch& batch, const CallPoint& point);
  Metrics end_evaluation(Group& ranks, const CallPoint& point, const std::string& series = "");
  // Discards the state gathered since begin_evaluation().
  void drop_evaluation();

  // Training: call `train` for each microbatch, after its forward and before its backward.
  // Errors  as above
  void begin_window(const CallPoint& point);
  void train(const MicrobatchState& values, const Batch& batch, const CallPoint& point);
  // Returns the metrics of a record, and resets the metrics since the last record. A collective
  // call that waits for the device.
  Metrics close_record(Group& ranks, const CallPoint& point);

  // Saves the gathered state, between evaluations: NUMBER/name, NUMBER/recent, NUMBER/step,
  // NUMBER/window, NUMBER/run and NUMBER/series. `load` resets metrics that the tree lacks, and
  // ignores metrics that only the tree has.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;
  // Returns the NUMBER of metric `i` in a tree, or nothing if the tree has no metric of its name.
  std::optional<size_t> saved_index(const StateTree& tree,
                                    const std::string& prefix,
                                    size_t i) const;

 private:
  struct Entry;
  void take(Entry& entry,
            MetricState& state,
            const MicrobatchState& values,
            const Batch& batch,
            const CallPoint& point);
  static void pass_on(Entry& entry, const CallPoint& point);

  at::ScalarType compute_dtype_;
  std::vector<std::unique_ptr<Entry>> entries_;  // not moved: states point to their metric
  std::vector<std::string> training_metrics_;
};

}  // namespace tenon
