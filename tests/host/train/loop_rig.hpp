// SPDX-License-Identifier: Apache-2.0
//
// A tiny run for tests of the loop's parts: y = w * x in fp64, with the loss sum(y), plain gradient
// descent, and samples that are their own numbers. So the mean loss is w * mean(x), its gradient is
// mean(x), and a step subtracts lr * mean(x) from w.
#pragma once

#include <tenon/hook.h>
#include <tenon/loss.h>
#include <tenon/optimizer.h>

#include "host/checkpoint/local_storage.hpp"
#include "host/error/status.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/handle.hpp"
#include "host/train/loop_wiring.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/host/model/test_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

struct SumLoss {
  bool counts_from_batch = true;
  double times = 1;  // NaN makes the step non-finite
  bool fails = false;

  static tenon_status* describe(void* self, tenon_loss_info* out) {
    static const tenon_port ports[] = {
        {sizeof(tenon_port), "v1", TENON_CLASS_ANY, 0, nullptr, 0},
        {sizeof(tenon_port), "sample", TENON_CLASS_ANY, 0, nullptr, 0}};
    out->additive_over = TENON_ADDITIVE_SAMPLES;
    out->flags = static_cast<SumLoss*>(self)->counts_from_batch ? TENON_LOSS_COUNT_FROM_BATCH : 0;
    out->ports_ref = ports;
    out->num_ports = 2;
    return nullptr;
  }
  static tenon_status* count(void*, const tenon_exec*, tenon_loss_count_args* args) {
    const auto n = static_cast<double>(tensor_of(args->inputs[1]).numel());
    args->out_count_own = new_handle(at::scalar_tensor(n, at::kDouble));
    return nullptr;
  }
  static tenon_status* compute(void* self, const tenon_exec*, tenon_loss_compute_args* args) {
    if (static_cast<SumLoss*>(self)->fails) {
      return make_status(nullptr, TENON_INVALID, "sum.failed", "the label 7 is out of range");
    }
    args->out_sum_own =
        new_handle(tensor_of(args->inputs[0]).sum() * static_cast<SumLoss*>(self)->times);
    return nullptr;
  }
  LossProxy proxy() {
    static const tenon_loss table = {sizeof(tenon_loss), &describe, &count, &compute, nullptr};
    return LossProxy(made_instance("loss", TENON_LOSS_ID, &table, this));
  }
};

struct PlainDescent {
  int num_updates = 0;

  static tenon_status* describe(void*, tenon_optimizer_info* out) {
    out->needs = TENON_OPTIMIZER_ELEMENTWISE;
    return nullptr;
  }
  static tenon_status* update(void* self, const tenon_exec*, const tenon_update_args* args) {
    ++static_cast<PlainDescent*>(self)->num_updates;
    for (size_t i = 0; i < args->num_pieces; ++i) {
      tensor_of(args->parameters[i])
          .sub_(tensor_of(args->grads[i]) * tensor_of(args->lr).item<double>());
    }
    return nullptr;
  }
  OptimizerProxy proxy() {
    static const tenon_optimizer table = {sizeof(tenon_optimizer), &describe, &update, nullptr};
    return OptimizerProxy(made_instance("optimizer", TENON_OPTIMIZER_ID, &table, this));
  }
};

// Records the events that it is called at, and does what a test wants there.
struct RecordingHook {
  uint32_t writes = 0;
  uint32_t reads = 0;
  uint32_t uses_collectives = 0;
  std::function<void(const tenon_event&)> on_event = {};
  std::vector<uint32_t> seen = {};

  static tenon_status* describe(void* self, tenon_hook_info* out) {
    out->events = (uint64_t{1} << TENON_NUM_EVENTS) - 1;
    out->phase = TENON_PHASE_NORMAL;
    out->writes = static_cast<RecordingHook*>(self)->writes;
    out->reads = static_cast<RecordingHook*>(self)->reads;
    out->uses_collectives = static_cast<RecordingHook*>(self)->uses_collectives;
    return nullptr;
  }
  static tenon_status* call(void* self, const tenon_event* event) {
    auto& hook = *static_cast<RecordingHook*>(self);
    hook.seen.push_back(event->id);
    if (hook.on_event) {
      hook.on_event(*event);
    }
    return nullptr;
  }
  std::vector<HookProxy> proxies() {
    static const tenon_hook table = {sizeof(tenon_hook), &describe, &call};
    std::vector<HookProxy> hooks;
    hooks.emplace_back(made_instance("hook", TENON_HOOK_ID, &table, this));
    return hooks;
  }
  size_t count(uint32_t event) const {
    return static_cast<size_t>(std::ranges::count(seen, event));
  }
};

// Everything that the loop borrows. A test changes recipe and loss before it takes parts().
class RunRig {
 public:
  explicit RunRig(int64_t num_samples = 8, std::vector<Window> windows = {})
      : source(num_samples), eval_source(4) {
    if (!windows.empty()) {
      source.set_windows(std::move(windows));
    }
    model_functions.inputs = {"sample"};
    model_functions.num_values = 2;
    model_functions.parameters = {{1}};
    model_functions.blocks = {
        {{0}, {1}, {0}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
           return Tensors{x[0].to(at::kDouble) * w[0]};
         }}};
    recipe.train.steps = 4;
    recipe.train.log_every = 1;
  }

  static ExecBase base() {
    ExecBase base;
    base.compute_dtype = at::kDouble;
    return base;
  }

  // To be called once, before the loop is made.
  TrainerParts parts(int64_t microbatches = 1) {
    proxy.emplace(
        made_instance("model", TENON_MODEL_ID, model_functions.table(), &model_functions));
    graph = describe_model(*proxy);
    store.emplace(graph,
                  ParameterLayout{at::kDouble, at::kCPU, [](uint32_t) { return uint32_t{0}; }});
    sharded.emplace(*store, ranks, ShardingOptions{});
    ExecFrame frame(proxy->instance().host(), base());
    store->initialise(*proxy, frame.exec(), 7);
    set_weight(2);
    runner.emplace(*proxy, *store, base(), RunnerOptions(), &*sharded);
    state.emplace(runner->new_state());
    std::vector<NamedLoss> named;
    named.push_back({.name = "sum", .weight = 1, .inputs = {}, .proxy = loss.proxy()});
    losses.emplace(std::move(named), graph, "made", base());
    metric_set.emplace(std::vector<NamedMetric>(), graph, "made", base());
    std::vector<OptimizedPartition> partitions;
    partitions.push_back({descent.proxy(), 0.5, "default"});
    optimizer.emplace(std::move(partitions), store->groups(), base());
    values.emplace(*optimizer, *sharded);
    LoaderOptions options;
    options.batch_size = 2;
    options.prefetch = static_cast<int>(microbatches);
    data.emplace(source, options);
    eval_data.emplace(eval_source, options);
    LoopPlan plan;
    plan.microbatches_per_step = microbatches;
    plan.counts_ahead = loss.counts_from_batch;
    std::vector<EvalSet> sets;
    if (has_eval) {
      sets.push_back({"eval/", &*eval_data});
    }
    if (recipe.checkpoint.has_value()) {
      CheckpointMetadata metadata;
      metadata.kind = kFullCheckpoint;
      checkpoints.emplace(CheckpointingParts{.recipe = *recipe.checkpoint,
                                             .storage = storage,
                                             .ranks = ranks,
                                             .metadata = metadata,
                                             .frozen_recipe = "{}",
                                             .has_windows = source.info().has_windows});
    }
    return {.recipe = recipe,
            .plan = plan,
            .parameters = *store,
            .sharded = *sharded,
            .model = *runner,
            .microbatch = *state,
            .losses = *losses,
            .metric_set = *metric_set,
            .optimizer = *optimizer,
            .values = *values,
            .train_data = *data,
            .eval_sets = sets,
            .test_sets = {},
            .on_boundary = nullptr,
            .checkpoints = checkpoints.has_value() ? &*checkpoints : nullptr,
            .metrics = metrics,
            .sinks = sinks,
            .progress = progress,
            .ranks = ranks,
            .published = published,
            .run_dir = folder.path().string(),
            .initialise = [] {},
            .on_failure =
                [](const Error& error) {
                  return FailedEnd{error, ExitCode::kFailed, /*is_reported=*/true};
                },
            .after_first_step = nullptr};
  }

  double weight() { return store->groups()[0].data()[0].item<double>(); }
  void set_weight(double weight) { store->groups()[0].data().fill_(weight); }

  ScratchFolder folder;
  std::shared_ptr<LocalStorage> storage =
      std::make_shared<LocalStorage>((folder.path() / "checkpoints").string());
  Recipe recipe;
  bool has_eval = false;
  TestModel model_functions;
  SumLoss loss;
  PlainDescent descent;
  FakeMap source;
  FakeMap eval_source;
  RankGroups ranks;
  std::optional<ModelProxy> proxy;
  ModelGraph graph;
  std::optional<ParameterStore> store;
  std::optional<ShardedParameters> sharded;
  std::optional<ProgramRunner> runner;
  std::optional<MicrobatchState> state;  // of the microbatch that runs
  std::optional<LossSet> losses;
  std::optional<MetricSet> metric_set;
  std::optional<OptimizerDriver> optimizer;
  std::optional<EvaluationValues> values;
  std::optional<DataStream> data;
  std::optional<DataStream> eval_data;
  std::optional<Checkpointing> checkpoints;
  MetricBook metrics;
  SinkList sinks{{}};
  Progress progress{Progress::Style::kQuiet};
  PublishedState published;
};

// The parts of the loop, put together as the trainer does; without the loop itself.
struct LoopRig {
  explicit LoopRig(RunRig& run, int64_t microbatches = 1)
      : parts(run.parts(microbatches)),
        hooks(hook.proxies()),
        stop(parts.recipe.train, state, parts.ranks.all(), nullptr),
        requests(parts.ranks.all(), state, stop, possible_requests(parts)),
        finite_check(finite_check_parts(parts, state, hooks), parts.recipe.train.non_finite),
        view(view_parts(parts, state, finite_check, requests), nullptr, 0),
        events(std::move(hooks),
               0,
               view,
               parts.parameters,
               parts.sharded,
               parts.published,
               parts.exec),
        log(log_parts(parts, state, stop, finite_check)),
        feed(feed_parts(parts, stop, log)),
        step(step_parts(parts, state, finite_check, events, view, log, requests)),
        evaluator(evaluator_parts(parts, state, events, view, requests, stop, log, step)),
        whole(whole_parts(parts, finite_check)),
        checkpoints(checkpoint_parts(parts, state, whole, events, requests, stop, evaluator)) {
    whole.add({&stop, &requests, &finite_check, &log, &feed, &evaluator});
  }

  // One step, as the trainer makes it; false if there is no batch after it.
  bool run_step(bool is_wanted = true) {
    ++state.step;
    std::vector<Microbatch> microbatches = feed.take_microbatches();
    step.run_microbatches(microbatches, [this] { feed.vote(requests.votes()); });
    const bool has_data = feed.hear(requests.votes());
    step.update(microbatches, is_wanted);
    view.step().microbatches = nullptr;
    return has_data;
  }

  RecordingHook hook;
  TrainerParts parts;
  std::vector<HookProxy> hooks;
  RunState state;
  StopConditions stop;
  LoopRequests requests;
  FiniteCheck finite_check;
  HookView view;
  LoopEvents events;
  StepLog log;
  WindowFeed feed;
  TrainStep step;
  Evaluator evaluator;
  WholeState whole;
  CheckpointDriver checkpoints;
};

}  // namespace tenon
