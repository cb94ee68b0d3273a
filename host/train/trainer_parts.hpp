// SPDX-License-Identifier: Apache-2.0
//
// The parts of a run that the loop drives, as the code that assembles the run passes them.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/device/gpu.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/embedding/table_set.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/metrics/sink_list.hpp"
#include "host/model/program_runner.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/loss_scale.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/best_state.hpp"
#include "host/train/components/component_states.hpp"
#include "host/train/eval_set.hpp"
#include "host/train/evaluation_values.hpp"
#include "host/train/flop_meter.hpp"
#include "host/train/loop_plan.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"
#include "host/train/parameter_averages.hpp"
#include "host/train/pretrained/pretrained.hpp"
#include "host/train/resume/checkpointing.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/published_state.hpp"
#include "host/train/run_state/run_boundary.hpp"
#include "host/train/signal_watch.hpp"
#include "host/train/step_profile.hpp"
#include "host/train/text_source.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class Trainer;

// All parts are borrowed and outlive the trainer.
struct TrainerParts {
  const Recipe& recipe;
  LoopPlan plan;
  ParameterStore& parameters;
  ShardedParameters& sharded;
  ProgramRunner& model;
  MicrobatchState& microbatch;  // the one that runs
  LossSet& losses;
  MetricSet& metric_set;
  OptimizerDriver& optimizer;
  EvaluationValues& values;
  TextSource* texts = nullptr;                     // null if hooks cannot generate texts
  ParameterAverages* averages = nullptr;           // null if no hook averages parameters
  TableSet* tables = nullptr;                      // null if the model has no lookups
  LossScale* loss_scale = nullptr;                 // null except under fp16
  const LrSchedulerProxy* lr_scheduler = nullptr;  // null: the factor is 1
  DataStream& train_data;
  std::vector<EvalSet> eval_sets;
  std::vector<EvalSet> test_sets;
  ComponentStates* components = nullptr;  // null if none has a state
  // In-memory state to resume from; null starts from scratch.
  const StateTree* start_from = nullptr;
  // Checkpoints to resume from, tried in order; null if there are none.
  ResumeCandidates* saved = nullptr;
  // Pretrained parts, loaded if the run starts from scratch and again on their schedules; null if
  // there are none.
  Pretrained* pretrained = nullptr;
  // Fingerprints of models that are not trained; null if there are none.
  Stateful* model_values = nullptr;
  // Called at every boundary except the start, so that the callee can snapshot the run's state.
  std::function<void(RunBoundary boundary, Trainer& trainer)> on_boundary;
  Checkpointing* checkpoints = nullptr;            // null if nothing is saved
  BestState* best = nullptr;                       // null if the best parameters are not kept
  bool is_eval_only = false;                       // evaluate instead of training
  WhichParameters which = WhichParameters::kAuto;  // of a checkpoint to evaluate
  // The last step of an earlier start with this recipe that ended as done; none if there is none.
  std::optional<uint64_t> finished_step = {};
  bool reads_at_end = false;   // the caller reads parameters or tables after the run
  bool imports_only = false;   // save the initial parameters instead of training
  Gpu* gpu = nullptr;          // null on the CPU
  FlopMeter* flops = nullptr;  // null if the recipe has no peak_flops
  MetricBook& metrics;
  SinkList& sinks;
  Progress& progress;
  RankGroups& ranks;
  const SignalWatch* signals = nullptr;
  PublishedState& published;
  StepProfile* profile = nullptr;
  ExecBase exec = {};  // of calls to hooks
  std::string run_dir;
  std::function<void()> initialise;  // gives parameters their initial values
  // Called as soon as an error ends the run on this rank, before on_error is fired: other ranks
  // wait for collectives that this rank no longer joins. Returns how the run ends.
  std::function<FailedEnd(const Error& error)> on_failure;
  std::function<void()> after_first_step;
  // Returns why the run folder is no longer that of this run; "" if it is. May be empty.
  std::function<std::string()> folder_problem = {};
};

}  // namespace tenon
