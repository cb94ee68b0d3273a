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
#include "host/train/checkpoint_driver.hpp"
#include "host/train/evaluator.hpp"
#include "host/train/initial_values.hpp"
#include "host/train/run_services.hpp"
#include "host/train/run_state/published_state.hpp"
#include "host/train/train_step.hpp"
#include "host/train/window_feed.hpp"

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
#include "tests/host/train/test_owner.hpp"
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

// A device that computes on the CPU, for code that must not wait for its results.
class NoGpu final : public Gpu {
 public:
  at::Device device() const override { return at::kCPU; }
  std::string describe() const override { return "none"; }
  void* stream() const override { return nullptr; }
  std::unique_ptr<Upload> upload(std::vector<at::Tensor>) override { return nullptr; }
  void synchronize() override {}
  MemoryPins memory_pins() const override { return {}; }
  GpuMemory memory() const override { return {}; }
  std::optional<RefusedMemory> refused() const override { return std::nullopt; }
};

// The services that the loop uses. A test changes recipe, request and components before it calls
// allocate().
class RunRig {
 public:
  // `shared`: the ranks of the run; null for one rank.
  explicit RunRig(int64_t num_samples = 8,
                  std::vector<Window> windows = {},
                  RankGroups* shared = nullptr)
      : source(num_samples), eval_source(4), ranks(shared != nullptr ? *shared : alone_) {
    if (!windows.empty()) {
      source.set_windows(std::move(windows));
    }
    model_functions.init = TENON_INIT_CONSTANT;
    model_functions.init_a = 2;
    model_functions.inputs = {"sample"};
    model_functions.num_values = 2;
    model_functions.parameters = {{1}};
    model_functions.blocks = {
        {{0}, {1}, {0}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
           return Tensors{x[0].to(at::kDouble) * w[0]};
         }}};
    recipe.model.name = "made";
    recipe.train.steps = 4;
    recipe.train.log_every = 1;
    options.batch_size = 2;
  }

  static ExecBase base() {
    ExecBase base;
    base.compute_dtype = at::kDouble;
    return base;
  }

  // To be called once, before the loop is made. The weight is 2 then.
  RunServices& allocate(int64_t microbatches = 1) {
    plan_model();
    plan.loop.microbatches_per_step = microbatches;
    plan.loop.counts_ahead = loss.counts_from_batch;
    options.prefetch = static_cast<int>(microbatches);
    data.emplace(*train_source, options);
    if (has_eval) {
      data->add_set(data->eval_sets, "eval/", *eval_from, std::nullopt);
    }
    if (recipe.checkpoint.has_value()) {
      CheckpointMetadata metadata;
      metadata.kind = kFullCheckpoint;
      data->checkpoints = std::make_unique<Checkpointing>(
          CheckpointingParts{.recipe = *recipe.checkpoint,
                             .storage = storage,
                             .ranks = ranks,
                             .metadata = metadata,
                             .frozen_recipe = "{}",
                             .has_windows = source.info().has_windows});
    }
    model.emplace(plan, ranks);
    report.run_dir = folder.path().string();
    set_initial_values(services.emplace(RunServices{
        .plan = plan, .ranks = rank_services, .data = *data, .model = *model, .report = report}));
    return *services;
  }

  double weight() { return model->parameters.groups()[0].data()[0].item<double>(); }
  void set_weight(double weight) { model->parameters.groups()[0].data().fill_(weight); }
  DataStream& eval_data() { return data->streams.front(); }

  ScratchFolder folder;
  std::shared_ptr<LocalStorage> storage =
      std::make_shared<LocalStorage>((folder.path() / "checkpoints").string());
  Recipe recipe;
  RunRequest request;
  bool has_eval = false;
  TestModel model_functions;
  SumLoss loss;
  PlainDescent descent;
  FakeMap source;
  FakeMap eval_source;
  DataSource* train_source = &source;
  DataSource* eval_from = &eval_source;
  LoaderOptions options;

 private:
  void plan_model() {
    ModelPlan& of_model = plan.model;
    ModelProxy proxy(
        made_instance("model", TENON_MODEL_ID, model_functions.table(), &model_functions));
    of_model.graph = describe_model(proxy);
    of_model.models = std::make_unique<RunModels>(recipe.model, std::move(proxy), of_model.graph);
    of_model.layout = {at::kDouble, at::kCPU, [](uint32_t) { return uint32_t{0}; }};
    std::vector<NamedLoss> named;
    named.push_back({.name = "sum", .weight = 1, .inputs = {}, .proxy = loss.proxy()});
    of_model.losses = std::make_unique<LossSet>(std::move(named), of_model.graph, "made", base());
    of_model.metrics =
        std::make_unique<MetricSet>(std::vector<NamedMetric>(), of_model.graph, "made", base());
    of_model.partitions.push_back({descent.proxy(), 0.5, "default"});
    of_model.optimizers.partition_of = {0};
  }

  RankGroups alone_;
  PluginRegistry registry_{PluginSetup{.vet_cache_file = "", .notice_file = ""}};
  tenon_mesh mesh_{};
  ComponentFactory factory_{registry_, recipe, mesh_};

 public:
  RankGroups& ranks;
  PlanContext context{
      .recipe = recipe, .factory = factory_, .role = ranks.role(), .precision = {}, .exec = base()};
  RunPlan plan{.context = context, .request = request};
  TestOwner owner;
  RankServices rank_services{.groups = ranks, .owner = owner};
  std::optional<DataServices> data;
  std::optional<ModelServices> model;
  PublishedState published;
  Journal journal{/*attempt=*/1, /*rank=*/0};
  ReportServices report{.metrics = MetricBook(),
                        .sinks = SinkList({}),
                        .journal = journal,
                        .run_dir = {},
                        .flops = nullptr,
                        .profile = nullptr,
                        .texts = nullptr,
                        .last_step = {}};
  Journal::Subscription state_reads = journal.subscribe(published, "state");
  Journal::Subscription sinks_read = journal.subscribe(report.sinks, "sinks");
  std::optional<RunServices> services;
};

// The parts of the loop, put together as the trainer does; without the loop itself.
struct LoopRig {
  explicit LoopRig(RunRig& rig, int64_t microbatches = 1)
      : run(with_hook(rig, hook, microbatches)),
        stop(run.recipe().train, state, rig.ranks.all(), nullptr),
        requests(run, state, stop),
        gradients(run),
        finite_check(run, state, gradients),
        log(run, state, stop, finite_check),
        view(run, state, gradients, finite_check, requests, log),
        events(run, view),
        feed(run, stop, log),
        step(run, state, gradients, finite_check, events, view, log, requests),
        evaluator(run, state, events, view, requests, stop, log, step.forward_pass()),
        whole(run, finite_check),
        checkpoints(run, state, whole, events, requests, stop, evaluator) {
    whole.add({&stop, &requests, &finite_check, &log, &feed, &evaluator});
  }

  static RunServices& with_hook(RunRig& rig, RecordingHook& hook, int64_t microbatches) {
    rig.plan.observers.hooks = hook.proxies();
    return rig.allocate(microbatches);
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
  RunServices& run;
  RunState state;
  StopConditions stop;
  LoopRequests requests;
  GradientStatistics gradients;
  FiniteCheck finite_check;
  StepLog log;
  HookView view;
  LoopEvents events;
  WindowFeed feed;
  TrainStep step;
  Evaluator evaluator;
  WholeState whole;
  CheckpointDriver checkpoints;
};

}  // namespace tenon
