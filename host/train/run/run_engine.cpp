// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_engine.hpp"

#include "host/device/block_cache.hpp"
#include "host/distributed/collectives/together.hpp"
#include "host/embedding/row_exchange.hpp"
#include "host/io/content_hash.hpp"
#include "host/log/log.hpp"
#include "host/model/parametrization_start.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/recomputed_blocks.hpp"
#include "host/train/components/saved_activations.hpp"
#include "host/train/resume/checkpoint_storage.hpp"
#include "host/train/resume/exports.hpp"
#include "host/train/resume/last_checkpoint.hpp"
#include "host/train/resume/run_file.hpp"
#include "host/train/run/peak_flops.hpp"
#include "host/train/run/run_kernels.hpp"
#include "host/train/run/run_sources.hpp"
#include "host/train/run/table_files.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace tenon {
namespace {

// Initial values are computed on the CPU.
ExecBase on_cpu(ExecBase exec) {
  exec.device = at::kCPU;
  exec.stream = nullptr;
  return exec;
}

// Creates the groups that need to know the device and the model.
RankGroups& connected(const RunContext& context, const RunComponents& components) {
  context.ranks.connect(context.platform.device(), !components.table_plan().tables.empty());
  return context.ranks;
}

LoadGoal load_goal(RunComponents& components) {
  LoadGoal goal{
      .model = components.model().instance(), .graph = components.trained_graph(), .tables = {}};
  for (const PlannedTable& table : components.table_plan().tables) {
    goal.tables.push_back(table.spec);
  }
  return goal;
}

}  // namespace

RunEngine::RunEngine(const RunContext& context,
                     RunComponents& components,
                     RunCheckpoints& run_checkpoints,
                     const RunFolder& folder)
    : context_(context),
      recipe_(context.recipe),
      components_(components),
      run_checkpoints_(run_checkpoints),
      folder_(folder),
      saving_(recipe_.checkpoint.value_or(CheckpointRecipe())),
      saved_(run_checkpoints.find(folder)),
      pretrained_(make_pretrained()),
      model_values_(make_model_values()),
      checkpoints_(make_checkpoints()),
      ranks_(connected(context, components)),
      parameters_(components.graph(), components.parameter_layout()),
      sharded_(parameters_, ranks_, sharding_options(recipe_.parallel)),
      init_frame_(components.model().instance().host(), on_cpu(context.platform.exec())),
      tables_(make_tables()),
      rows_(make_rows()),
      runner_(components_.models().list(),
              parameters_,
              context_.platform.exec(),
              runner_options(),
              &sharded_,
              rows_.get(),
              activation_store(recipe_.train, folder_.path())),
      microbatch_(runner_.new_state()),
      optimizer_(make_optimizer()),
      averages_(make_averages()),
      values_(optimizer_, sharded_, averages_.has_value() ? &*averages_ : nullptr),
      texts_({.recipe = recipe_,
              .factory = context.factory,
              .model = components.model(),
              .graph = components.trained_graph(),
              .parameters = parameters_,
              .sharded = sharded_,
              .values = values_,
              .ranks = context.ranks.all(),
              .exec = context.platform.exec()}),
      train_data_(components.train_set().source(),
                  components.loader_options(),
                  SkipList(recipe_.data.skip_windows)),
      eval_sets_(make_eval_sets(components.eval_sets(), recipe_.data.eval, recipe_.eval.batches)),
      test_sets_(make_eval_sets(components.test_sets(), recipe_.data.test, std::nullopt)),
      best_(make_best()),
      flop_meter_(make_flop_meter()),
      metrics_(context.platform.gpu() != nullptr ? MetricBook::Reading::kTogether
                                                 : MetricBook::Reading::kAtOnce),
      sinks_(make_sinks()),
      profile_(make_profile()) {
  record_windows();
  if (context.platform.precision().autocast == at::kHalf) {
    loss_scale_.emplace(context.platform.device());
  }
  if (is_first() && !context.request.is_eval_only) {
    last_step_.emplace(folder.path());
  }
}

// Only positions in windows of training are saved, and those of the evaluation windows with them.
void RunEngine::record_windows() {
  const auto record = [this](RunDataset& set, DataStream& data) {
    if (data.source().info().has_windows) {
      data.use_recorder(window_recorder(set, recipe_.data.on_change, is_first()));
    }
  };
  record(components_.train_set(), train_data_);
  for (size_t i = 0; i < eval_sets_.size(); ++i) {
    if (has_paired_windows(eval_sets_[i], recipe_.eval, train_data_)) {
      record(components_.eval_sets()[i], *eval_sets_[i].data);
    }
  }
}

// A resumed run needs its loads only for reloads and for parameters excluded from checkpoints, and
// opens them later.
std::unique_ptr<Pretrained> RunEngine::make_pretrained() {
  if (recipe_.load.empty()) {
    return nullptr;
  }
  auto pretrained = std::make_unique<Pretrained>(
      recipe_.load, context_.factory, load_goal(components_), context_.ranks.all());
  if (saved_ == nullptr && context_.request.start_from == nullptr) {
    pretrained->open();
  }
  return pretrained;
}

// Weights that only become a checkpoint need no other model.
std::unique_ptr<ModelValues> RunEngine::make_model_values() {
  if (recipe_.further_models.empty() || imports_only()) {
    return nullptr;
  }
  auto values =
      std::make_unique<ModelValues>(components_.models(), context_.factory, context_.ranks.all());
  for (const RunModels::Member& member : components_.models().stored()) {
    values->add_stored(member.use, components_.stored_fingerprints().at(member.use.name));
  }
  values->open();
  return values;
}

std::unique_ptr<Checkpointing> RunEngine::make_checkpoints() {
  if (!recipe_.checkpoint.has_value() && !imports_only()) {
    return nullptr;
  }
  CheckpointMetadata metadata = run_checkpoints_.metadata();
  metadata.excluded = components_.excluded();
  auto checkpoints = std::make_unique<Checkpointing>(CheckpointingParts{
      .recipe = saving_,
      .storage = run_checkpoints_.storage_at(folder_.path()),
      .ranks = context_.ranks,
      .metadata = std::move(metadata),
      .kernels = kernel_answers,
      .frozen_recipe = frozen_recipe(recipe_),
      .has_windows = components_.train_set().source().info().has_windows,
      .on_commit = [run_dir = folder_.path()](
                       const std::string& address) { write_last_checkpoint(run_dir, address); },
      .is_run = [this](const std::string& run) { return run_checkpoints_.is_run(run); }});
  add_exports(*checkpoints);
  return checkpoints;
}

void RunEngine::add_exports(Checkpointing& checkpoints) {
  const auto storage = [&](const std::string& what) -> std::shared_ptr<CheckpointStore> {
    return make_checkpoint_storage(
        context_.factory, saving_.storage, folder_.path(), "exports/" + what);
  };
  for (const ExportRecipe& one : saving_.exports) {
    const std::string name = export_name(one.format);
    const bool has_layout = one.format == ExportFormat::kHf;
    if (has_layout && is_first() && !components_.table_plan().tables.empty()) {
      log_warning("exports of the format " + name +
                  " have no rows of tables; exports of the format weights have them");
    }
    checkpoints.add_export(std::make_unique<Export>(
        one,
        Export::Places{.made = storage(name), .shares = has_layout ? storage("." + name) : nullptr},
        context_.ranks,
        static_cast<int>(saving_.retries),
        has_layout ? components_.export_places() : std::nullopt));
  }
}

// Also imports rows if requested.
std::unique_ptr<TableSet> RunEngine::make_tables() {
  const TablePlan& plan = components_.table_plan();
  if (plan.tables.empty()) {
    return nullptr;
  }
  auto tables = std::make_unique<TableSet>(
      components_.take_tables(), plan.lookups, context_.platform.exec(), &ranks_.rows());
  if (const std::string& from = run_checkpoints_.tables_from(); !from.empty()) {
    together(context_.ranks.all(), "import of tables", [&] {
      import_tables(*tables, from, [&rows = ranks_.rows()](int64_t id) {
        return RowExchange::owner_of(id, rows.size()) == rows.rank();
      });
    });
  }
  return tables;
}

std::unique_ptr<TableRows> RunEngine::make_rows() const {
  return tables_ != nullptr ? std::make_unique<TableRows>(*tables_, components_.table_plan().values)
                            : nullptr;
}

RunnerOptions RunEngine::runner_options() {
  const TrainRecipe& train = recipe_.train;
  return {.recomputed = components_.recomputed(),
          .keeps_attention = keeps_attention(train.recompute),
          .tile = train.tile.value_or(0),
          .loss_chunk = train.loss_chunk.value_or(0),
          .kept = values_read()};
}

// Values inside of a recomputed unit that no loss or metric reads are not kept.
std::vector<uint32_t> RunEngine::values_read() {
  std::vector<uint32_t> values = components_.metric_set().values_read();
  for (size_t i = 0; i < components_.losses().size(); ++i) {
    const std::vector<uint32_t> of_loss = components_.losses().values_read(i);
    values.insert(values.end(), of_loss.begin(), of_loss.end());
  }
  return values;
}

// Updates run on the device that stores the shards.
ExecBase RunEngine::exec_of_shards() const {
  ExecBase exec = context_.platform.exec();
  const FlatSharing sharing =
      sharing_of(recipe_.parallel, context_.platform.role(), context_.platform.device());
  if (sharing.home.has_value()) {
    exec.device = *sharing.home;
    exec.stream = nullptr;
  }
  return exec;
}

OptimizerDriver RunEngine::make_optimizer() {
  return OptimizerDriver(components_.take_partitions(), parameters_.groups(), exec_of_shards());
}

std::optional<ParameterAverages> RunEngine::make_averages() {
  const auto& average = components_.average();
  return average.has_value() ? std::make_optional<ParameterAverages>(
                                   *average, parameters_.groups(), exec_of_shards())
                             : std::nullopt;
}

std::vector<EvalSet> RunEngine::make_eval_sets(std::deque<RunDataset>& sets,
                                               const std::vector<EvalSetUse>& uses,
                                               std::optional<int64_t> batches) {
  std::vector<EvalSet> result;
  for (size_t i = 0; i < sets.size(); ++i) {
    DataStream& data = eval_data_.emplace_back(
        sets[i].source(), for_evaluation(components_.loader_options(), batches));
    result.push_back({eval_prefix(uses[i]), &data});
  }
  return result;
}

std::unique_ptr<BestState> RunEngine::make_best() {
  if (!recipe_.eval.keep_best.has_value() || context_.request.is_eval_only) {
    return nullptr;
  }
  BestState::Parts kept = {{"parameters", &parameters_}};
  if (tables_ != nullptr) {
    kept.emplace_back("tables", tables_.get());
  }
  return std::make_unique<BestState>(*recipe_.eval.keep_best, std::move(kept));
}

std::unique_ptr<FlopMeter> RunEngine::make_flop_meter() {
  const RunPlatform& platform = context_.platform;
  const auto peak =
      imports_only() || context_.request.is_eval_only
          ? std::nullopt
          : peak_flops(recipe_.train, platform.precision(), platform.device(), platform.gpu());
  if (!peak.has_value()) {
    return nullptr;
  }
  std::set<std::string> fields;
  for (const FieldInfo& field : readable_fields(*components_.train_set().source().info().schema)) {
    fields.insert(field.name);
  }
  const Program& program =
      runner_.program(PassKind::kTrain,
                      recipe_.train.loss_chunk.has_value() ? ProgramRunner::Losses::kInChunks
                                                           : ProgramRunner::Losses::kWhole);
  return std::make_unique<FlopMeter>(
      ModelFlops({.models = components_.models().list(),
                  .graph = components_.graph(),
                  .exec = platform.exec(),
                  .fields = std::move(fields),
                  .is_trainable = [this](uint32_t p) { return parameters_.is_trainable(p); }}),
      count_forwards(program, runner_.facts().num_blocks()),
      *peak);
}

// Only rank 0 writes metrics.
SinkList RunEngine::make_sinks() {
  std::vector<MetricSinkProxy> all = components_.take_sinks();
  SinkList sinks(is_first() ? std::move(all) : std::vector<MetricSinkProxy>());
  sinks.open(folder_.path());
  return sinks;
}

std::unique_ptr<StepProfile> RunEngine::make_profile() const {
  const RunPlatform& platform = context_.platform;
  if (!context_.request.profile.has_value()) {
    return nullptr;
  }
  return std::make_unique<StepProfile>(
      *context_.request.profile,
      folder_.file(is_first() ? "profile.json"
                              : formatted("logs/profile-rank-{}.json", platform.role().rank())),
      platform.device().is_cuda() ? StepProfile::Devices::kCpuAndGpu : StepProfile::Devices::kCpu);
}

void RunEngine::initialise(Progress& progress) {
  const uint64_t seed = mix_seeds(recipe_.seed, stream_of("init"));
  parameters_.initialise(components_.model(), init_frame_.exec(), seed);
  const UnstoredValue drawn = drawn_value(parameters_, seed);
  UnstoredValue unstored = drawn;
  if (const WeightsImport* const weights = components_.weights()) {
    weights->load(parameters_);
    // It has values of the trained model only.
    unstored = [this, weights, drawn](uint32_t k) {
      const at::Tensor value = weights->unstored(parameters_, k);
      return value.defined() ? value : drawn(k);
    };
  }
  if (model_values_ != nullptr) {
    initialise_further(seed);
  }
  start_parametrizations(all_parametrizations(parameters_.graph()),
                         parameters_,
                         sharded_,
                         on_cpu(context_.platform.exec()),
                         unstored);
  if (model_values_ != nullptr) {
    load_further(progress);
  }
}

void RunEngine::initialise_further(uint64_t seed) {
  std::deque<RunModels::Member>& members = components_.models().members();
  for (uint32_t i = 1; i < members.size(); ++i) {
    const ExecFrame frame(members[i].proxy.instance().host(), on_cpu(context_.platform.exec()));
    parameters_.initialise_further(i, members[i].proxy, frame.exec(), seed);
  }
}

void RunEngine::load_further(Progress& progress) {
  const LoadTargets targets{
      .parameters = parameters_,
      .optimizer = optimizer_,
      .start = [this](const std::vector<uint32_t>& which, const UnstoredValue& unstored) {
        start_parametrizations(
            which, parameters_, sharded_, on_cpu(context_.platform.exec()), unstored);
      }};
  for (const std::string& line : model_values_->load(targets, sharded_)) {
    progress.say(line);
  }
}

void RunEngine::note_boundary(RunBoundary point, Trainer& trainer) {
  if (last_step_.has_value()) {
    last_step_->write(trainer.state().step);
  }
  if (const auto& on_boundary = context_.request.on_boundary) {
    on_boundary(point, trainer);
  }
}

TrainerParts RunEngine::make_trainer_parts(const LoopSurroundings& surroundings) {
  const RunRequest& request = context_.request;
  const RunPlatform& platform = context_.platform;
  return {.recipe = recipe_,
          .plan = components_.plan(),
          .parameters = parameters_,
          .sharded = sharded_,
          .model = runner_,
          .microbatch = microbatch_,
          .losses = components_.losses(),
          .metric_set = components_.metric_set(),
          .optimizer = optimizer_,
          .values = values_,
          .texts = &texts_,
          .averages = averages_.has_value() ? &*averages_ : nullptr,
          .tables = tables_.get(),
          .loss_scale = loss_scale_.has_value() ? &*loss_scale_ : nullptr,
          .lr_scheduler = components_.scheduler(),
          .train_data = train_data_,
          .eval_sets = eval_sets_,
          .test_sets = test_sets_,
          .components = &context_.factory.states(),
          .start_from = request.start_from,
          .saved = saved_,
          .pretrained = pretrained_.get(),
          .model_values = model_values_.get(),
          .on_boundary = [this](auto point, Trainer& trainer) { note_boundary(point, trainer); },
          .checkpoints = checkpoints_.get(),
          .best = best_.get(),
          .is_eval_only = request.is_eval_only,
          .which = request.which,
          .finished_step = finished_step(),
          .reads_at_end = !request.tables.export_to.empty(),
          .imports_only = imports_only(),
          .gpu = platform.gpu(),
          .flops = flop_meter_.get(),
          .metrics = metrics_,
          .sinks = sinks_,
          .progress = surroundings.progress,
          .ranks = ranks_,
          .signals = &surroundings.signals,
          .published = surroundings.published,
          .profile = profile_.get(),
          .exec = platform.exec(),
          .run_dir = folder_.path(),
          .initialise = [this, &surroundings] { initialise(surroundings.progress); },
          .on_failure = surroundings.on_failure,
          .after_first_step =
              [this, after = surroundings.after_first_step] {
                if (is_first() && !kernel_answers().empty()) {
                  folder_.write("kernels.json", kernel_answers_text());
                }
                if (after != nullptr) {
                  after();
                }
              },
          .folder_problem = surroundings.folder_problem};
}

// Reads the summary on rank 0. It counts only if it is of the same recipe.
std::optional<uint64_t> RunEngine::finished_step() {
  int64_t step = -1;
  if (is_first() && saved_ != nullptr) {
    const nlohmann::json summary = read_run_json(folder_.file("summary.json"));
    const auto has = [&summary](const char* key, const std::string& value) {
      return summary.value(key, nlohmann::json()) == value;
    };
    if (summary.is_object() && has("outcome", "done") &&
        has("recipe_hash", content_hash_of(frozen_recipe(recipe_))) &&
        summary.value("steps", nlohmann::json()).is_number_unsigned()) {
      step = summary["steps"].get<int64_t>();
    }
  }
  context_.ranks.all().all_reduce(std::span(&step, 1), Reduce::kMax, "step of the summary");
  return step >= 0 ? std::optional(static_cast<uint64_t>(step)) : std::nullopt;
}

void RunEngine::export_rows() {
  const TableFolders& tables = context_.request.tables;
  together(context_.ranks.all(), "export of tables", [&] {
    export_tables(*tables_,
                  tables.export_to,
                  tables.has_slots ? RowParts::kAll : RowParts::kValues,
                  ranks_.rows().rank(),
                  ranks_.rows().size());
  });
}

Outcome RunEngine::run(const LoopSurroundings& surroundings) {
  Trainer trainer(make_trainer_parts(surroundings), components_.take_hooks());
  Outcome outcome = trainer.run();
  outcome.traffic = context_.world.traffic();
  outcome.peak_tensor_bytes = cpu_tensor_memory().peak_bytes;
  if (outcome.error_id.empty() || context_.world.size() == 1) {
    outcome.parameters_hash =
        parameters_.hash([this](FlatGroup& group) { return sharded_.gather_stored(group); });
  }
  if (!context_.request.tables.export_to.empty() && outcome.error_id.empty()) {
    export_rows();
  }
  return outcome;
}

}  // namespace tenon
