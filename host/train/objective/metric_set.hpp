// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a run, on one model's outputs: what they gather in an evaluation, and in training
// where they declare it. It gives metrics by name; writing them is the loop's business.
// Invariant: nothing that is called each step waits for a device. Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
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
  // Errors  metric.unknown_input: what was looked for, and what there is; metric.input_mismatch;
  //         plugin.bad_result if a metric has a name that none may have
  MetricSet(std::vector<NamedMetric> metrics,
            const ModelGraph& graph,
            const std::string& model_name,
            const ExecBase& base);
  ~MetricSet();
  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  bool is_empty() const { return entries_.empty(); }
  // Whether any is taken in training too.
  bool has_training() const { return !training_metrics_.empty(); }

  // Checks that a dataset has the fields that the metrics read.
  // Errors  metric.unknown_input, metric.input_mismatch
  void check_fields(const std::vector<FieldInfo>& fields, const std::string& dataset) const;

  // The metrics of training: NAME (NAME/METRIC of a metric with several) since the last record,
  // NAME/window since the window began,
  // NAME/run since the run did, as far as metrics declare them.
  const std::vector<std::string>& training_metrics() const { return training_metrics_; }

  // The same of an evaluation, without its prefix.
  std::vector<std::string> evaluation_metrics() const;

  // An evaluation: begin, each batch after its forward, end. `end` is a collective call, and gives
  // the same on all ranks; it waits for the device.
  // Errors  PluginError, plugin.bad_result
  // With the name of a series, each metric comes a second time as NAME/run, over all evaluations of
  // that series.
  void begin_evaluation();
  void evaluate(const ModelRunner& runner, const Batch& batch, const CallPlace& place);
  Metrics end_evaluation(Collective& collective,
                         const CallPlace& place,
                         const std::string& series = "");
  // Forgets what has been gathered since begin_evaluation().
  void drop_evaluation();

  // Training: each microbatch after its forward, before its backward.
  // Errors  as above
  void begin_window(const CallPlace& place);
  void train(const ModelRunner& runner, const Batch& batch, const CallPlace& place);
  // What a record says, and a new start for metrics since the last one. A collective call, which
  // waits for the device.
  Metrics close_record(Collective& collective, const CallPlace& place);

  // What has been gathered, between evaluations: NUMBER/name, NUMBER/recent, NUMBER/step,
  // NUMBER/window, NUMBER/run and series. A metric that the tree does not have begins empty, and
  // those that it alone has are forgotten.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;
  // The NUMBER of metric `i` in a tree; none if that has no metric of its name.
  std::optional<size_t> saved_place(const StateTree& tree,
                                    const std::string& prefix,
                                    size_t i) const;

 private:
  struct Entry;
  void take(Entry& entry,
            MetricState& state,
            const ModelRunner& runner,
            const Batch& batch,
            const CallPlace& place);
  static void pass_on(Entry& entry, const CallPlace& place);

  at::ScalarType compute_dtype_;
  std::vector<std::unique_ptr<Entry>> entries_;  // in place: states refer to their metric
  std::vector<std::string> training_metrics_;
};

}  // namespace tenon
