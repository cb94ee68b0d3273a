// SPDX-License-Identifier: Apache-2.0
//
// The engine of one run: parameters, their flow between ranks, tables, optimizers, data streams,
// metrics and checkpoints, allocated from checked components, and the loop that drives them.
// RunSession makes the run folder and handles the end of the run.
// Invariant: members are constructed in the order in which they use each other, and destroyed in
// reverse order.
// Threads: [main], which is the train thread. All ranks construct an engine at the same time.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/embedding/table_set.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/metrics/run_folder.hpp"
#include "host/metrics/sink_list.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/program_runner.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/loss_scale.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/train/best_state.hpp"
#include "host/train/components/sharding_options.hpp"
#include "host/train/flop_meter.hpp"
#include "host/train/parameter_averages.hpp"
#include "host/train/pretrained/model_values.hpp"
#include "host/train/pretrained/pretrained.hpp"
#include "host/train/resume/checkpointing.hpp"
#include "host/train/resume/last_step.hpp"
#include "host/train/run/run_checkpoints.hpp"
#include "host/train/run/run_components.hpp"
#include "host/train/run/run_context.hpp"
#include "host/train/run/run_texts.hpp"
#include "host/train/run/table_rows.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/published_state.hpp"
#include "host/train/signal_watch.hpp"
#include "host/train/step_profile.hpp"
#include "host/train/trainer.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace tenon {

// Objects of the session that the loop uses. Borrowed until run() returns.
struct LoopSurroundings {
  Progress& progress;
  PublishedState& published;
  const SignalWatch& signals;
  // As in TrainerParts.
  std::function<FailedEnd(const Error& error)> on_failure;
  std::function<void()> after_first_step = {};
  std::function<std::string()> folder_problem = {};
};

class RunEngine {
 public:
  // All arguments are borrowed and outlive the engine. Takes hooks, sinks, tables and optimizers
  // from `components`: a second engine needs new components.
  //
  // Errors  checkpoint.*; load.*; distributed.*; table.*; plugin.failed of a sink; out of memory
  RunEngine(const RunContext& context,
            RunComponents& components,
            RunCheckpoints& run_checkpoints,
            const RunFolder& folder);
  RunEngine(const RunEngine&) = delete;
  RunEngine& operator=(const RunEngine&) = delete;

  // Trains, or evaluates or imports instead if requested, and then exports tables. Call once.
  //
  // Errors  those of exporting tables; all other errors become the outcome
  Outcome run(const LoopSurroundings& surroundings);

 private:
  void record_windows();
  std::unique_ptr<Pretrained> make_pretrained();
  std::unique_ptr<ModelValues> make_model_values();
  std::unique_ptr<Checkpointing> make_checkpoints();
  void add_exports(Checkpointing& checkpoints);
  std::unique_ptr<TableSet> make_tables();
  std::unique_ptr<TableRows> make_rows() const;
  RunnerOptions runner_options();
  std::vector<uint32_t> values_read();
  ExecBase exec_of_shards() const;
  OptimizerDriver make_optimizer();
  std::optional<ParameterAverages> make_averages();
  std::vector<EvalSet> make_eval_sets(std::deque<RunDataset>& sets,
                                      const std::vector<EvalSetUse>& uses,
                                      std::optional<int64_t> batches);
  std::unique_ptr<BestState> make_best();
  std::unique_ptr<FlopMeter> make_flop_meter();
  SinkList make_sinks();
  std::unique_ptr<StepProfile> make_profile() const;
  void initialise(Progress& progress);
  void initialise_further(uint64_t seed);
  void load_further(Progress& progress);
  TrainerParts make_trainer_parts(const LoopSurroundings& surroundings);
  void note_boundary(RunBoundary point, Trainer& trainer);
  std::optional<uint64_t> finished_step();
  void export_rows();
  bool imports_only() const { return !context_.request.weights.format.empty(); }
  bool is_first() const { return context_.platform.is_first(); }

  const RunContext& context_;
  const Recipe& recipe_;
  RunComponents& components_;
  RunCheckpoints& run_checkpoints_;
  const RunFolder& folder_;
  const CheckpointRecipe saving_;
  ResumeCandidates* const saved_;               // null: the run starts over
  std::unique_ptr<Pretrained> pretrained_;      // null: the recipe loads nothing
  std::unique_ptr<ModelValues> model_values_;   // null: there is only the trained model
  std::unique_ptr<Checkpointing> checkpoints_;  // null: nothing is saved
  RankGroups& ranks_;
  ParameterStore parameters_;
  ShardedParameters sharded_;
  ExecFrame init_frame_;
  std::unique_ptr<TableSet> tables_;  // null: the model has no lookups
  std::unique_ptr<TableRows> rows_;
  ProgramRunner runner_;
  MicrobatchState microbatch_;  // the one that runs
  OptimizerDriver optimizer_;
  std::optional<ParameterAverages> averages_;  // none unless a hook averages parameters
  EvaluationValues values_;
  RunTexts texts_;
  DataStream train_data_;
  std::deque<DataStream> eval_data_;  // of both lists below
  std::vector<EvalSet> eval_sets_;
  std::vector<EvalSet> test_sets_;
  std::unique_ptr<BestState> best_;        // null unless the recipe keeps the best
  std::unique_ptr<FlopMeter> flop_meter_;  // null unless the recipe has peak_flops
  MetricBook metrics_;
  SinkList sinks_;
  std::optional<LastStepWriter> last_step_;  // on rank 0
  std::unique_ptr<StepProfile> profile_;     // null unless requested
  std::optional<LossScale> loss_scale_;      // fp16 only
};

}  // namespace tenon
