// SPDX-License-Identifier: Apache-2.0
//
// The components of a run, created from the recipe and matched with each other: fields with inputs,
// patterns with parameters, tables with lookups. Nothing is allocated and nothing is trained here.
// Invariant: the constructor finds all errors that can be found without allocating.
// Threads: [main].
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/data/loader.hpp"
#include "host/embedding/table_set.hpp"
#include "host/model/graph.hpp"
#include "host/model/model_list.hpp"
#include "host/model/parameter_store.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/plugin/hook_proxy.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/plugin/metric_sink_proxy.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/train/components/optimizer_groups.hpp"
#include "host/train/components/recipe_tables.hpp"
#include "host/train/components/reported_component.hpp"
#include "host/train/components/run_dataset.hpp"
#include "host/train/components/run_models.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"
#include "host/train/run/run_context.hpp"
#include "host/train/trainer.hpp"
#include "host/train/weights/weight_places.hpp"
#include "host/train/weights/weights_import.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class RunComponents {
 public:
  // `context` is borrowed. Applies process-wide settings before it creates the first component.
  //
  // Errors  plugin.*; recipe.*; data.*; loss.*; table.*; optim.*; weights.*; hook.*;
  //         checkpoint.unmatched_exclude; errors of components
  explicit RunComponents(const RunContext& context);
  RunComponents(const RunComponents&) = delete;
  RunComponents& operator=(const RunComponents&) = delete;

  ModelProxy& model() { return models_->trained().proxy; }  // the trained model
  RunModels& models() { return *models_; }
  // The blocks of all models that run.
  const ModelGraph& graph() const { return graph_; }
  // All blocks of the trained model.
  const ModelGraph& trained_graph() const { return models_->trained().graph; }
  RunDataset& train_set() { return *train_set_; }
  std::deque<RunDataset>& eval_sets() { return eval_sets_; }  // in the order of the recipe
  std::deque<RunDataset>& test_sets() { return test_sets_; }
  // Returns the sources of data.train, data.eval and data.test.
  std::vector<DataSource*> sources();
  // Returns those that give batches stored outputs of a model.
  std::vector<StoredSource*> stored_sources();
  // Values of the models with stored outputs, by name; set before the engine is made.
  std::map<std::string, std::string>& stored_fingerprints() { return stored_fingerprints_; }
  LossSet& losses() { return *losses_; }
  MetricSet& metric_set() { return *metric_set_; }
  // Null if the recipe has no scheduler: the schedule's factor is 1.
  const LrSchedulerProxy* scheduler() const {
    return scheduler_.has_value() ? &*scheduler_ : nullptr;
  }
  // Null unless the run starts from imported weights.
  const WeightsImport* weights() const { return weights_.has_value() ? &*weights_ : nullptr; }
  const TablePlan& table_plan() const { return table_plan_; }
  const OptimizerPlan& optimizer_plan() const { return optimizer_plan_; }
  // Empty after take_partitions().
  const std::vector<OptimizedPartition>& partitions() const { return partitions_; }
  // None unless a hook averages parameters.
  const std::optional<ParameterAverageProxy>& average() const { return average_; }
  const std::vector<bool>& unsharded() const { return unsharded_; }    // by parameter
  const std::vector<bool>& recomputed() const { return recomputed_; }  // by block
  const LoopPlan& plan() const { return plan_; }
  const Excluded& excluded() const { return excluded_; }  // excluded from checkpoints
  // Places of the tensors in exports of the format "hf"; none unless the recipe has such exports.
  const std::optional<WeightPlaces>& export_places() const { return export_places_; }
  // Returns the layout of this rank's parameters. Its functions borrow this object.
  ParameterLayout parameter_layout() const;
  // Returns the options for loaders of training data.
  LoaderOptions loader_options() const;
  // Returns the components for the header and the summary, in order. Call before any take_...().
  std::vector<ReportedComponent> reported();

  // Transfer ownership to the engine. Each may be called once.
  std::vector<HookProxy> take_hooks() { return std::move(hooks_); }
  std::vector<MetricSinkProxy> take_sinks() { return std::move(sinks_); }
  std::vector<TableUse> take_tables() { return std::move(tables_); }
  std::vector<OptimizedPartition> take_partitions() { return std::move(partitions_); }

 private:
  void create_datasets();
  void create_losses_and_metrics();
  void create_observers();
  void create_tables();
  void create_optimizers();
  void plan_saves();
  void choose_blocks();
  void check_stored_are_read() const;
  std::vector<uint32_t> values_for_hooks();
  void check_import() const;
  void check_metric_names() const;
  void check_windows();
  void check_all_fields();
  void check_fields(DataSource& source);
  void check_packing(DataSource& source) const;
  void check_loop();
  void check_sources();
  std::string model_detail() const;
  StoredFields stored_fields() const;
  uint64_t data_seed() const;
  DataRank data_rank() const;

  const RunContext& context_;
  const Recipe& recipe_;
  std::optional<RunModels> models_;
  std::optional<RunDataset> train_set_;
  std::deque<RunDataset> eval_sets_;
  std::deque<RunDataset> test_sets_;
  std::optional<LrSchedulerProxy> scheduler_;
  std::vector<HookProxy> hooks_;
  std::optional<ParameterAverageProxy> average_;
  std::vector<MetricSinkProxy> sinks_;
  ModelGraph graph_;  // of all models; final after the inputs of losses and metrics are known
  std::vector<NamedLoss> named_losses_;     // until moved to losses_
  std::vector<NamedMetric> named_metrics_;  // until moved to metric_set_
  std::optional<LossSet> losses_;
  std::optional<MetricSet> metric_set_;
  std::optional<WeightsImport> weights_;
  TablePlan table_plan_;
  Excluded excluded_;
  std::optional<WeightPlaces> export_places_;
  std::vector<TableUse> tables_;
  OptimizerPlan optimizer_plan_;
  std::vector<OptimizerInfo> optimizer_infos_;  // by partition
  std::vector<bool> unsharded_;
  std::vector<bool> recomputed_;
  std::vector<OptimizedPartition> partitions_;
  LoopPlan plan_;
  std::map<std::string, std::string> stored_fingerprints_;
  std::vector<ReportedComponent> reported_losses_;  // and reported metrics
};

}  // namespace tenon
