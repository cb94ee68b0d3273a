// SPDX-License-Identifier: Apache-2.0
#include "host/train/loop_wiring.hpp"

#include "host/train/memory_report.hpp"
#include "host/train/named_metrics.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include <string>
#include <utility>

namespace tenon {

LoopRequests::Possible possible_requests(const TrainerParts& parts) {
  return {.skip_update = !parts.recipe.train.update_in_backward,
          .evaluate = !parts.eval_sets.empty(),
          .checkpoint = parts.checkpoints != nullptr,
          .roll_back = parts.checkpoints != nullptr &&
                       parts.checkpoints->recipe().on_spike == OnSpike::kRollBack};
}

FiniteCheck::Parts finite_check_parts(const TrainerParts& parts,
                                      RunState& state,
                                      const std::vector<HookProxy>& hooks) {
  return {.state = state,
          .parameters = parts.parameters,
          .sharded = parts.sharded,
          .ranks = parts.ranks,
          .tables = parts.tables,
          .loss_scale = parts.loss_scale,
          .is_on_cpu = parts.gpu == nullptr,
          .are_gradients_rewritten =
              any_writes(hooks, TENON_EVENT_BEFORE_OPTIMIZER_STEP, TENON_TOUCH_GRADIENTS)};
}

HookView::Parts view_parts(const TrainerParts& parts,
                           const RunState& state,
                           const FiniteCheck& finite_check,
                           LoopRequests& requests) {
  return {.state = state,
          .run_dir = parts.run_dir,
          .losses = parts.losses,
          .values = parts.microbatch,
          .parameters = parts.parameters,
          .sharded = parts.sharded,
          .optimizer = parts.optimizer,
          .finite_check = finite_check,
          .metrics = parts.metrics,
          .requests = requests,
          .ranks = parts.ranks,
          .texts = parts.texts};
}

StepLog::Parts log_parts(const TrainerParts& parts,
                         const RunState& state,
                         const StopConditions& stop,
                         FiniteCheck& finite_check) {
  return {.train = parts.recipe.train,
          .state = state,
          .stop = stop,
          .ranks = parts.ranks,
          .train_data = parts.train_data,
          .losses = parts.losses,
          .metric_set = parts.metric_set,
          .metrics = parts.metrics,
          .sinks = parts.sinks,
          .progress = parts.progress,
          .finite_check = finite_check,
          .tables = parts.tables,
          .gpu = parts.gpu,
          .flops = parts.flops};
}

WindowFeed::Parts feed_parts(const TrainerParts& parts, const StopConditions& stop, StepLog& log) {
  std::vector<DataStream*> paired;
  for (const EvalSet& set : parts.eval_sets) {
    if (has_paired_windows(set, parts.recipe.eval, parts.train_data)) {
      paired.push_back(set.data);
    }
  }
  return {.data = parts.train_data,
          .paired = std::move(paired),
          .ranks = parts.ranks,
          .on_wait = [&log](auto time) { log.add_data_wait(time); },
          .gives_up = [&stop] { return stop.is_interrupted() || stop.is_time_up(); },
          .microbatches_per_step = parts.plan.microbatches_per_step,
          .repeats_first_batch = parts.recipe.train.overfit_batch};
}

TrainStep::Parts step_parts(const TrainerParts& parts,
                            RunState& state,
                            FiniteCheck& finite_check,
                            LoopEvents& events,
                            HookView& view,
                            StepLog& log,
                            LoopRequests& requests) {
  return {.update = {.train = parts.recipe.train,
                     .check_replicas_every = parts.recipe.parallel.check_replicas_every,
                     .state = state,
                     .parameters = parts.parameters,
                     .sharded = parts.sharded,
                     .optimizer = parts.optimizer,
                     .averages = parts.averages,
                     .tables = parts.tables,
                     .loss_scale = parts.loss_scale,
                     .ranks = parts.ranks,
                     .finite_check = finite_check,
                     .events = events,
                     .view = view},
          .model = parts.model,
          .values = parts.microbatch,
          .losses = parts.losses,
          .metric_set = parts.metric_set,
          .metrics = parts.metrics,
          .log = log,
          .votes = requests.votes(),
          .counts_ahead = parts.plan.counts_ahead};
}

Evaluator::Parts evaluator_parts(const TrainerParts& parts,
                                 const RunState& state,
                                 LoopEvents& events,
                                 HookView& view,
                                 LoopRequests& requests,
                                 StopConditions& stop,
                                 StepLog& log,
                                 TrainStep& step) {
  return {.recipe = parts.recipe.eval,
          .state = state,
          .sets = parts.eval_sets,
          .test_sets = parts.test_sets,
          .train_data = parts.train_data,
          .ranks = parts.ranks,
          .model = parts.model,
          .microbatch = parts.microbatch,
          .losses = parts.losses,
          .metric_set = parts.metric_set,
          .forward_pass = step.forward_pass(),
          .metrics = parts.metrics,
          .sinks = parts.sinks,
          .progress = parts.progress,
          .best = parts.best,
          .events = events,
          .step = view.step(),
          .requests = requests,
          .stop = stop,
          .log = log,
          .values = parts.values,
          .by_source = parts.recipe.train.loss_by_source};
}

CheckpointDriver::Parts checkpoint_parts(const TrainerParts& parts,
                                         const RunState& state,
                                         WholeState& whole,
                                         LoopEvents& events,
                                         LoopRequests& requests,
                                         StopConditions& stop,
                                         const Evaluator& evaluator) {
  return {.checkpoints = parts.checkpoints,
          .state = state,
          .whole = whole,
          .prepared = {{run_state::kParameters, &parts.parameters},
                       {run_state::kOptimizer, &parts.optimizer}},
          .metrics = parts.metrics,
          .progress = parts.progress,
          .ranks = parts.ranks,
          .signals = parts.signals,
          .events = events,
          .requests = requests,
          .stop = stop,
          .values = parts.values,
          .evaluated =
              [&evaluator] {
                return CheckpointDriver::Evaluated{evaluator.evaluated_step(),
                                                   evaluator.last_metrics()};
              },
          .folder_problem = parts.folder_problem};
}

WholeState::Parts whole_parts(const TrainerParts& parts, FiniteCheck& finite_check) {
  using namespace run_state;
  WholeState::Parts whole;
  const auto add = [&](const char* name, Stateful* part) {
    if (part != nullptr) {
      whole.trained.emplace_back(name, part);
    }
  };
  add(kBest, parts.best);  // first: its load() overwrites the parameters with the best ones
  add(kModels, parts.model_values);
  add(kParameters, &parts.parameters);
  add(kOptimizer, &parts.optimizer);
  add(kAverages, parts.averages);
  add(kLossScale, parts.loss_scale);
  add(kTables, parts.tables);
  add(kMetricBook, &parts.metrics);
  add(kGuard, &finite_check.guard());
  whole.weights.emplace_back(kParameters, &parts.parameters);
  if (parts.tables != nullptr) {
    whole.weights.emplace_back(kTables, parts.tables);
  }
  for (size_t i = 0; i < parts.eval_sets.size(); ++i) {
    if (has_paired_windows(parts.eval_sets[i], parts.recipe.eval, parts.train_data)) {
      whole.data.emplace_back(state_path(kEvalData, std::to_string(i)), parts.eval_sets[i].data);
    }
  }
  whole.data.emplace_back(kTrainData, &parts.train_data);
  whole.components = parts.components;
  whole.metrics = &parts.metric_set;
  whole.before_snapshot = [&finite_check] { finite_check.sync(); };
  return whole;
}

std::vector<EvalSet> all_sets(const TrainerParts& parts) {
  std::vector<EvalSet> sets = parts.eval_sets;
  sets.insert(sets.end(), parts.test_sets.begin(), parts.test_sets.end());
  return sets;
}

std::set<std::string> known_evaluation_metrics(const TrainerParts& parts) {
  return evaluation_metrics(parts.recipe, all_sets(parts), parts.losses, parts.metric_set);
}

std::string memory_report(const TrainerParts& parts, int64_t batch_bytes) {
  HeldMemory held;
  for (const FlatGroup& group : parts.parameters.groups()) {
    held.parameters += static_cast<int64_t>(group.data().nbytes());
    if (!group.sharing().frees_gradients) {
      held.gradients += static_cast<int64_t>(group.grad().nbytes());
    }
    if (group.has_copy()) {
      const auto bytes = static_cast<int64_t>(group.unsharded_view(0).element_size());
      held.parameters += group.data().numel() * bytes;
    }
  }
  held.optimizer = parts.optimizer.state_bytes();
  held.tables = parts.tables != nullptr ? parts.tables->num_bytes() : 0;
  held.batches = batch_bytes;
  return parts.gpu != nullptr ? gpu_memory_report(held, parts.gpu->memory(), parts.gpu->refused())
                              : cpu_memory_report(held, resident_bytes());
}

RunLoader::Parts loader_parts(const TrainerParts& parts, const RunState& state) {
  return {.start_from = parts.start_from,
          .saved = parts.saved,
          .pretrained = parts.pretrained,
          .state = state,
          .parameters = parts.parameters,
          .sharded = parts.sharded,
          .optimizer = parts.optimizer,
          .values = parts.values,
          .averages = parts.averages,
          .tables = parts.tables,
          .components = parts.components,
          .recipe = parts.recipe,
          .progress = parts.progress,
          .ranks = parts.ranks,
          .exec = parts.exec};
}

}  // namespace tenon
