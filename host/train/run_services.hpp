// SPDX-License-Identifier: Apache-2.0
//
// The services of a run, allocated from its plan, in four groups: model, data, ranks, reporting. A
// class of the loop takes them all by reference, and uses those that it needs. A new service is a
// member of its group, used where it is needed.
// Invariant: services outlive the loop. Members of a group are constructed in the order in which
// they use each other, and the groups in the order data, ranks, model, report.
// Threads: the train thread; see each service.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/embedding/table_set.hpp"
#include "host/journal/journal.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/sink_list.hpp"
#include "host/model/activation_store.hpp"
#include "host/model/program_runner.hpp"
#include "host/model/sequence_group.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/model/stage_exchange.hpp"
#include "host/model/tensor_group.hpp"
#include "host/optim/loss_scale.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/process/signal_watch.hpp"
#include "host/train/best_state.hpp"
#include "host/train/components/component_states.hpp"
#include "host/train/eval_set.hpp"
#include "host/train/evaluation_values.hpp"
#include "host/train/flop_meter.hpp"
#include "host/train/parameter_averages.hpp"
#include "host/train/pretrained/model_values.hpp"
#include "host/train/pretrained/pretrained.hpp"
#include "host/train/resume/checkpointing.hpp"
#include "host/train/resume/last_step.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/run_owner.hpp"
#include "host/train/run_plan/run_plan.hpp"
#include "host/train/step_profile.hpp"
#include "host/train/table_rows.hpp"
#include "host/train/text_source.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct RankServices {
  RankGroups& groups;
  const SignalWatch* signals = nullptr;  // null: nothing sends signals
  RunOwner& owner;
};

// Samples, and what else is read from and written to storage.
struct DataServices {
  // `source` is borrowed.
  DataServices(DataSource& source, const LoaderOptions& options, SkipList skipped = {});
  DataServices(const DataServices&) = delete;
  DataServices& operator=(const DataServices&) = delete;

  // Adds a set that evaluations read at most `batches` batches of; none: all.
  DataStream& add_set(std::vector<EvalSet>& sets,
                      const std::string& prefix,
                      DataSource& source,
                      std::optional<int64_t> batches);
  // The evaluation sets and the test sets.
  std::vector<EvalSet> all_sets() const;

  DataStream train;
  std::deque<DataStream> streams;  // of both lists below
  std::vector<EvalSet> eval_sets;
  std::vector<EvalSet> test_sets;

  ComponentStates* components = nullptr;  // states of components; null: none has a state
  ResumeCandidates* saved = nullptr;      // tried in order; null: the run starts over
  // The last step of an earlier start with this recipe that ended as done; none if there is none.
  std::optional<uint64_t> finished_step;
  std::unique_ptr<Pretrained> pretrained;      // null: the recipe loads nothing
  std::unique_ptr<ModelValues> model_values;   // of further models; null: there are none
  std::unique_ptr<Checkpointing> checkpoints;  // null: nothing is saved

 private:
  LoaderOptions options_;
};

// Values of the model, and what computes with them and changes them.
struct ModelServices {
  // Allocates the parameters. `plan` and `groups` are borrowed.
  // Errors  those of ProgramRunner, TableSet, OptimizerDriver; out of memory
  ModelServices(const RunPlan& plan,
                RankGroups& groups,
                std::unique_ptr<ActivationStore> activations = nullptr);
  ModelServices(const ModelServices&) = delete;
  ModelServices& operator=(const ModelServices&) = delete;

  LossSet& losses;
  MetricSet& metrics;  // those of plugins
  ParameterStore parameters;
  ShardedParameters sharded;
  // Of this rank's sequences; null unless ranks divide the positions.
  std::unique_ptr<SequenceGroup> sequences;
  // Of the ranks that divide blocks; null unless they do.
  std::unique_ptr<TensorGroup> tensor;
  std::unique_ptr<StageExchange> exchange;  // between stages; null without a pipeline
  std::unique_ptr<TableSet> tables;         // null: the model has no lookups
  std::unique_ptr<TableRows> rows;          // of `tables`
  ProgramRunner runner;
  std::deque<MicrobatchState> states;  // of microbatches in flight; at least one
  OptimizerDriver optimizer;
  std::optional<ParameterAverages> averages;  // none unless a hook averages parameters
  EvaluationValues values;
  std::optional<LossScale> loss_scale;  // fp16 only
  std::unique_ptr<BestState> best;      // null unless the recipe keeps the best

  // The state of a microbatch that runs alone.
  MicrobatchState& state() { return states.front(); }
  // Waits until other ranks have received what the stages of this rank have sent.
  // Errors  as StageExchange::finish
  void finish_messages() {
    if (exchange != nullptr) {
      exchange->finish();
    }
  }
};

struct ReportServices {
  MetricBook metrics;
  SinkList sinks;
  Journal& journal;  // what happens is reported here; progress line and sinks read it
  std::string run_dir;
  std::unique_ptr<FlopMeter> flops;         // null if the recipe has no peak_flops
  std::unique_ptr<StepProfile> profile;     // null unless requested
  std::unique_ptr<TextSource> texts;        // null if hooks cannot generate texts
  std::optional<LastStepWriter> last_step;  // on rank 0 of a training
};

struct RunServices {
  const RunPlan& plan;
  RankServices& ranks;
  DataServices& data;
  ModelServices& model;
  ReportServices& report;

  const Recipe& recipe() const { return plan.recipe(); }
  const RankRole& role() const { return ranks.groups.role(); }
  bool is_alone() const { return role().is_alone(); }
};

}  // namespace tenon
