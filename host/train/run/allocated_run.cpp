// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/allocated_run.hpp"

#include "host/distributed/collectives/together.hpp"
#include "host/embedding/row_exchange.hpp"
#include "host/io/content_hash.hpp"
#include "host/log/log.hpp"
#include "host/model/divided_graph.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/saved_activations.hpp"
#include "host/train/resume/checkpoint_storage.hpp"
#include "host/train/resume/exports.hpp"
#include "host/train/resume/last_checkpoint.hpp"
#include "host/train/resume/run_file.hpp"
#include "host/train/run/peak_flops.hpp"
#include "host/train/run/run_kernels.hpp"
#include "host/train/run/run_sources.hpp"
#include "host/train/run/run_texts.hpp"
#include "host/train/run/table_files.hpp"

#include <nlohmann/json.hpp>

#include <set>
#include <span>
#include <string>
#include <utility>

namespace tenon {
namespace {

// ---- data ----

LoadGoal load_goal(const RunPlan& plan) {
  LoadGoal goal{
      .model = plan.model.trained().instance(), .graph = plan.model.trained_graph(), .tables = {}};
  for (const PlannedTable& table : plan.model.lookups.tables) {
    goal.tables.push_back(table.spec);
  }
  return goal;
}

// A resumed run needs its loads only for reloads and for parameters excluded from checkpoints, and
// opens them later.
std::unique_ptr<Pretrained> make_pretrained(const RunSurroundings& around,
                                            const RunPlan& plan,
                                            bool resumes) {
  if (plan.recipe().load.empty()) {
    return nullptr;
  }
  auto pretrained = std::make_unique<Pretrained>(
      plan.recipe().load, plan.context.factory, load_goal(plan), around.context.ranks.all());
  if (!resumes && plan.request.start_from == nullptr) {
    pretrained->open();
  }
  return pretrained;
}

// Weights that only become a checkpoint need no other model.
std::unique_ptr<ModelValues> make_model_values(const RunSurroundings& around,
                                               const RunPlan& plan,
                                               const StoredFingerprints& outputs) {
  if (plan.recipe().further_models.empty() || plan.imports_only()) {
    return nullptr;
  }
  auto values = std::make_unique<ModelValues>(
      *plan.model.models, plan.context.factory, around.context.ranks.all());
  for (const RunModels::Member& member : plan.model.models->stored()) {
    values->add_stored(member.use, outputs.at(member.use.name));
  }
  values->open();
  return values;
}

void add_exports(Checkpointing& checkpoints, const RunSurroundings& around, const RunPlan& plan) {
  const CheckpointRecipe& saving = checkpoints.recipe();
  const auto storage = [&](const std::string& what) -> std::shared_ptr<CheckpointStore> {
    return make_checkpoint_storage(
        plan.context.factory, saving.storage, around.folder.path(), "exports/" + what);
  };
  for (const ExportRecipe& one : saving.exports) {
    const std::string name = export_name(one.format);
    const bool has_layout = one.format == ExportFormat::kHf;
    if (has_layout && plan.context.role.is_first() && !plan.model.lookups.tables.empty()) {
      log_warning("exports of the format " + name +
                  " have no rows of tables; exports of the format weights have them");
    }
    checkpoints.add_export(std::make_unique<Export>(
        one,
        Export::Storages{.made = storage(name),
                         .shares = has_layout ? storage("." + name) : nullptr},
        around.context.ranks,
        static_cast<int>(saving.retries),
        has_layout ? plan.files.export_map : std::nullopt));
  }
}

// An import saves by the defaults, if the recipe does not say how.
const CheckpointRecipe& saving_of(const Recipe& recipe) {
  static const CheckpointRecipe defaults;
  return recipe.checkpoint.has_value() ? *recipe.checkpoint : defaults;
}

std::unique_ptr<Checkpointing> make_checkpoints(const RunSurroundings& around,
                                                const RunPlan& plan) {
  if (!plan.recipe().checkpoint.has_value() && !plan.imports_only()) {
    return nullptr;
  }
  RunCheckpoints& run = around.checkpoints;
  CheckpointMetadata metadata = run.metadata();
  metadata.excluded = plan.files.excluded;
  auto checkpoints = std::make_unique<Checkpointing>(CheckpointingParts{
      .recipe = saving_of(plan.recipe()),
      .storage = run.storage_at(around.folder.path()),
      .ranks = around.context.ranks,
      .metadata = std::move(metadata),
      .kernels = kernel_answers,
      .frozen_recipe = frozen_recipe(plan.recipe()),
      .has_windows = plan.data.train->source().info().has_windows,
      .on_commit = [run_dir = around.folder.path()](
                       const std::string& address) { write_last_checkpoint(run_dir, address); },
      .is_run = [&run](const std::string& name) { return run.is_run(name); }});
  add_exports(*checkpoints, around, plan);
  return checkpoints;
}

// Reads the summary on rank 0. It counts only if it is of the same recipe.
std::optional<uint64_t> finished_step(const RunSurroundings& around,
                                      const RunPlan& plan,
                                      bool resumes) {
  int64_t step = -1;
  if (plan.context.role.is_first() && resumes) {
    const nlohmann::json summary = read_run_json(around.folder.file("summary.json"));
    const auto has = [&summary](const char* key, const std::string& value) {
      return summary.value(key, nlohmann::json()) == value;
    };
    if (summary.is_object() && has("outcome", "done") &&
        has("recipe_hash", content_hash_of(frozen_recipe(plan.recipe()))) &&
        summary.value("steps", nlohmann::json()).is_number_unsigned()) {
      step = summary["steps"].get<int64_t>();
    }
  }
  around.context.ranks.all().all_reduce(std::span(&step, 1), Reduce::kMax, "step of the summary");
  return step >= 0 ? std::optional(static_cast<uint64_t>(step)) : std::nullopt;
}

LoaderOptions with_exchange(LoaderOptions options, PartExchange& parts) {
  options.parts = &parts;
  return options;
}

void add_sets(DataServices& data, const RunPlan& plan) {
  const DataRecipe& recipe = plan.recipe().data;
  for (size_t i = 0; i < plan.data.eval.size(); ++i) {
    data.add_set(data.eval_sets,
                 eval_prefix(recipe.eval[i]),
                 plan.data.eval[i]->source(),
                 plan.recipe().eval.batches);
  }
  for (size_t i = 0; i < plan.data.test.size(); ++i) {
    data.add_set(
        data.test_sets, eval_prefix(recipe.test[i]), plan.data.test[i]->source(), std::nullopt);
  }
}

// Only positions in windows of training are saved, and those of the evaluation windows with them.
void record_windows(DataServices& data, const RunPlan& plan) {
  const auto record = [&plan](RunDataset& set, DataStream& stream) {
    if (stream.source().info().has_windows) {
      stream.use_recorder(
          window_recorder(set, plan.recipe().data.on_change, plan.context.role.is_first()));
    }
  };
  record(*plan.data.train, data.train);
  for (size_t i = 0; i < data.eval_sets.size(); ++i) {
    if (has_paired_windows(data.eval_sets[i], plan.recipe().eval, data.train)) {
      record(*plan.data.eval[i], *data.eval_sets[i].data);
    }
  }
}

void fill(DataServices& data,
          const RunSurroundings& around,
          const RunPlan& plan,
          const StoredFingerprints& outputs) {
  data.components = &plan.context.factory.states();
  data.saved = around.checkpoints.find(around.folder);
  const bool resumes = data.saved != nullptr;
  data.pretrained = make_pretrained(around, plan, resumes);
  data.model_values = make_model_values(around, plan, outputs);
  data.checkpoints = make_checkpoints(around, plan);
  data.finished_step = finished_step(around, plan, resumes);
  add_sets(data, plan);
  record_windows(data, plan);
}

// ---- ranks ----

// Opens what the run reads and writes, which may fail, and then creates the groups that need to
// know the device and the model.
RankGroups& open_and_connect(DataServices& data,
                             const RunSurroundings& around,
                             const RunPlan& plan,
                             const StoredFingerprints& outputs) {
  fill(data, around, plan, outputs);
  RankGroups& ranks = around.context.ranks;
  ranks.connect(plan.context.exec.device,
                !plan.model.lookups.tables.empty(),
                shared_parameters(plan.model.graph));
  return ranks;
}

// ---- model ----

void import_rows(TableSet& tables, const std::string& from, RankGroups& ranks) {
  together(ranks.all(), "import of tables", [&] {
    import_tables(tables, from, [&rows = ranks.rows()](int64_t id) {
      return RowExchange::owner_of(id, rows.size()) == rows.rank();
    });
  });
}

// ---- report ----

std::unique_ptr<FlopMeter> make_flop_meter(const RunPlan& plan, ModelServices& model) {
  const PlanContext& context = plan.context;
  const auto peak =
      plan.imports_only() || plan.request.is_eval_only
          ? std::nullopt
          : peak_flops(plan.recipe().train, context.precision, context.exec.device, context.gpu);
  if (!peak.has_value()) {
    return nullptr;
  }
  std::set<std::string> fields;
  for (const FieldInfo& field : readable_fields(*plan.data.train->source().info().schema)) {
    fields.insert(field.name);
  }
  const auto losses = plan.model.runner.loss_chunk > 0 ? ProgramRunner::Losses::kInChunks
                                                       : ProgramRunner::Losses::kWhole;
  // Also of stages on other ranks: one rank counts the work on the samples that it shares.
  const uint32_t num_blocks = model.runner.facts().num_blocks();
  std::vector<uint32_t> forwards(num_blocks, 0);
  for (uint32_t stage = 0; stage < plan.model.graph.stage_owners.size(); ++stage) {
    const std::vector<uint32_t> of_stage =
        count_forwards(model.runner.program(PassKind::kTrain, losses, stage), num_blocks);
    for (uint32_t b = 0; b < num_blocks; ++b) {
      forwards[b] += of_stage[b];
    }
  }
  return std::make_unique<FlopMeter>(
      ModelFlops(
          {.models = plan.model.models->list(),
           .graph = plan.model.graph,
           .exec = context.exec,
           .fields = std::move(fields),
           .is_trainable = [&model](uint32_t p) { return model.parameters.is_trainable(p); }}),
      std::move(forwards),
      *peak);
}

std::unique_ptr<StepProfile> make_profile(const RunPlan& plan, const RunFolder& folder) {
  if (!plan.request.profile.has_value()) {
    return nullptr;
  }
  const RankRole& role = plan.context.role;
  return std::make_unique<StepProfile>(
      *plan.request.profile,
      folder.file(role.is_first() ? "profile.json"
                                  : formatted("logs/profile-rank-{}.json", role.rank())),
      plan.context.exec.device.is_cuda() ? StepProfile::Devices::kCpuAndGpu
                                         : StepProfile::Devices::kCpu);
}

// Only rank 0 writes metrics.
std::vector<MetricSinkProxy> sinks_of(const RunPlan& plan) {
  return plan.context.role.is_first() ? plan.observers.sinks : std::vector<MetricSinkProxy>();
}

}  // namespace

AllocatedRun::AllocatedRun(const RunSurroundings& around,
                           const RunPlan& plan,
                           const StoredFingerprints& outputs)
    : parts_(around.context.ranks),
      data_(plan.data.train->source(),
            with_exchange(plan.data.loader, parts_),
            SkipList(plan.recipe().data.skip_windows)),
      ranks_{.groups = open_and_connect(data_, around, plan, outputs),
             .signals = &around.signals,
             .owner = around.owner},
      model_(plan, ranks_.groups, activation_store(plan.recipe().train, around.folder.path())),
      report_{.metrics = MetricBook(plan.context.gpu != nullptr ? MetricBook::Reading::kTogether
                                                                : MetricBook::Reading::kAtOnce),
              .sinks = SinkList(sinks_of(plan)),
              .journal = around.journal,
              .run_dir = around.folder.path(),
              .flops = make_flop_meter(plan, model_),
              .profile = make_profile(plan, around.folder),
              .texts = std::make_unique<RunTexts>(plan, model_, ranks_.groups.all()),
              .last_step = {}},
      services_{.plan = plan, .ranks = ranks_, .data = data_, .model = model_, .report = report_} {
  if (const std::string& from = around.checkpoints.tables_from();
      model_.tables != nullptr && !from.empty()) {
    import_rows(*model_.tables, from, ranks_.groups);
  }
  report_.sinks.open(report_.run_dir);
  if (report_.profile != nullptr) {  // before the sinks, so that it records their time
    profile_reads_ = around.journal.subscribe(*report_.profile, "profile");
  }
  sinks_read_ = around.journal.subscribe(report_.sinks, "metric sinks");
  if (plan.context.role.is_first() && !plan.request.is_eval_only) {
    report_.last_step.emplace(report_.run_dir);
  }
}

}  // namespace tenon
