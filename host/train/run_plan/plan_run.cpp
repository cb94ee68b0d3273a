// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/plan_run.hpp"

#include <tenon/hook.h>
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/model_fields.hpp"
#include "host/recipe/component_options.hpp"
#include "host/recipe/run_rules.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/components/recomputed_blocks.hpp"
#include "host/train/components/saved_activations.hpp"
#include "host/train/objective/chunked_loss.hpp"
#include "host/train/pretrained/tokenizer_files.hpp"
#include "host/train/resume/exports.hpp"
#include "host/train/run_plan/divided_model.hpp"
#include "host/train/run_plan/pipeline_model.hpp"
#include "host/train/run_plan/plan_checks.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace tenon {
namespace {

// Returns the averages of the hook that has them, if any.
// Errors  hook.two_averages if a second hook, or an optimizer, evaluates at other values too
std::optional<ParameterAverageProxy> find_average(
    const std::vector<HookProxy>& hooks, const std::vector<OptimizedPartition>& partitions) {
  std::optional<ParameterAverageProxy> found;
  std::string first;
  for (const OptimizedPartition& partition : partitions) {
    if (partition.optimizer.has_evaluation_values()) {
      first = partition.optimizer.instance().identity().describe();
    }
  }
  for (const HookProxy& hook : hooks) {
    const auto average = ParameterAverageProxy::of(hook.instance());
    if (!average.has_value()) {
      continue;
    }
    if (!first.empty()) {
      throw Error("hook.two_averages",
                  average->identity().describe() +
                      ": averages parameters for evaluation, and so "
                      "does " +
                      first + "; remove one of them");
    }
    first = average->identity().describe();
    found = average;
  }
  return found;
}

bool any_reads_outputs(const std::vector<HookProxy>& hooks) {
  return std::ranges::any_of(
      hooks, [](const HookProxy& hook) { return (hook.info().reads & TENON_TOUCH_OUTPUTS) != 0; });
}

// Creates and matches the parts of one plan.
class Planner {
 public:
  Planner(const PlanContext& context, const RunRequest& request)
      : context_(context),
        recipe_(context.recipe),
        made_(new RunPlan{.context = context, .request = request}),
        plan_(*made_) {}

  // The order decides which of several errors is found.
  std::unique_ptr<const RunPlan> plan() {
    create_components();
    match();
    plan_steps();
    return std::move(made_);
  }

 private:
  void create_components();
  void create_datasets();
  void create_observers();
  void match();
  void plan_saves();
  void choose_blocks();
  void cut();
  void check_stored_are_read() const;
  std::vector<uint32_t> values_for_hooks() const;
  void plan_steps();
  LoaderOptions loader_options() const;
  uint64_t data_seed() const { return mix_seeds(recipe_.seed, stream_of("data")); }

  const PlanContext& context_;
  const Recipe& recipe_;
  std::unique_ptr<RunPlan> made_;
  RunPlan& plan_;
  CreatedObjective objective_;  // until it is bound
  StepSchedule schedule_;       // until the loop is planned
};

// ---- creating ----

void Planner::create_components() {
  plan_.model.models = std::make_unique<RunModels>(recipe_, context_.factory);
  create_datasets();
  objective_ = create_objective(context_);
  plan_.objective = objective_.reported();
  create_observers();
}

void Planner::create_datasets() {
  const StoredFields stored{.names = plan_.model.models->stored_fields(),
                            .dtype = context_.precision.exact()};
  plan_.data.train = std::make_unique<RunDataset>(context_.factory,
                                                  recipe_.data.train,
                                                  "data/train",
                                                  data_seed(),
                                                  recipe_.data.shuffle,
                                                  stored);
  const auto add = [&](std::vector<std::unique_ptr<RunDataset>>& sets,
                       const std::vector<EvalSetUse>& uses) {
    for (const EvalSetUse& set : uses) {
      const std::string place = "data/" + set.list + (set.name.empty() ? "" : "/" + set.name);
      sets.push_back(std::make_unique<RunDataset>(
          context_.factory, set.data, place, data_seed(), false, stored));
    }
  };
  add(plan_.data.eval, recipe_.data.eval);
  add(plan_.data.test, recipe_.data.test);
}

void Planner::create_observers() {
  ComponentFactory& factory = context_.factory;
  if (recipe_.lr_scheduler.has_value()) {
    plan_.observers.scheduler.emplace(factory.create(*recipe_.lr_scheduler, "lr_scheduler"));
  }
  for (size_t i = 0; i < recipe_.hooks.size(); ++i) {
    if (plan_.request.is_eval_only && named_metric(recipe_.hooks[i]).has_value()) {
      continue;  // it decides on training, by a metric that these data sets may not give
    }
    plan_.observers.hooks.emplace_back(factory.create(recipe_.hooks[i], formatted("hooks/{}", i)));
  }
  for (size_t i = 0; i < recipe_.sinks.size(); ++i) {
    plan_.observers.sinks.emplace_back(factory.create(recipe_.sinks[i], formatted("sinks/{}", i)));
  }
}

// Finds the parameters excluded from checkpoints, and the layout map of exports.
void Planner::plan_saves() {
  if (!recipe_.checkpoint.has_value()) {
    return;
  }
  std::vector<std::string> tables;
  for (const PlannedTable& table : plan_.model.lookups.tables) {
    tables.push_back(table.spec.name);
  }
  plan_.files.excluded =
      excluded_of(recipe_.checkpoint->exclude, plan_.model.trained_graph(), tables);
  for (const ExportRecipe& one : recipe_.checkpoint->exports) {
    if (one.format == ExportFormat::kHf) {
      check_run_rules(recipe_,
                      {.has_parametrizations = !plan_.model.graph.parametrizations.empty()});
      plan_.files.export_map = layout_map_of(plan_.model.trained().instance(),
                                             plan_.model.trained_graph(),
                                             export_name(one.format),
                                             static_cast<uint32_t>(context_.precision.stored));
      add_tokenizer_files(recipe_, context_.factory, *plan_.files.export_map);
    }
  }
}

// ---- matching ----

void Planner::match() {
  ModelPlan& model = plan_.model;
  model.graph = model.models->joined();
  divide_model(context_, model.graph, model.models->trained().graph);
  if (plan_.imports_only()) {
    plan_.files.import.emplace(
        model.trained().instance(), model.trained_graph(), plan_.request.weights);
  }
  model.lookups = plan_tables(recipe_, model.trained_graph());
  check_import(plan_);
  plan_saves();
  bind_objective(model, std::move(objective_), context_);
  choose_blocks();
  cut();
  model.runner = {.recomputed = recomputed_blocks(recipe_.train.recompute, model.graph),
                  .keeps_attention = keeps_attention(recipe_.train.recompute),
                  .tile = recipe_.train.tile.value_or(0),
                  .loss_chunk = recipe_.train.loss_chunk.value_or(0),
                  .kept = model.values_read(),
                  .gathers_values =
                      context_.role.tensor().count > 1 && any_reads_outputs(plan_.observers.hooks),
                  .has_pieces = recipe_.parallel.sequence_parallel};
  check_run_rules(recipe_,
                  {.is_cpu = context_.exec.device.is_cpu(),
                   .can_keep_attention = can_keep_attention(context_.exec)});
  check_tiles(recipe_.train, model.graph);
  check_metric_names(plan_);
  check_all_fields(plan_);
  check_windows(plan_);
  check_context(plan_);
  check_tensor(plan_);
  check_pipeline(plan_);
}

// Divides the model into the stages of a pipeline.
void Planner::cut() {
  const int64_t microbatches = microbatches_per_step(recipe_, context_.role.samples().count);
  const auto schedule = load_pipeline(context_, static_cast<uint32_t>(microbatches));
  if (schedule.has_value()) {
    ModelPlan& model = plan_.model;
    cut_model(context_, *schedule, model.values_read(), model.graph, model.models->trained().graph);
    schedule_ = StepSchedule(*schedule, context_.role.pipeline().index);
  }
}

// Decides which blocks run, by the values that losses, metrics and hooks read.
// Errors  model.unread for a model whose outputs nothing reads
void Planner::choose_blocks() {
  std::vector<uint32_t> read = values_for_hooks();
  const std::vector<uint32_t> of_objective = plan_.model.values_read();
  read.insert(read.end(), of_objective.begin(), of_objective.end());
  const ModelGraph& graph = plan_.model.graph;
  for (size_t m = 1; m < plan_.model.models->members().size(); ++m) {
    const bool is_read = std::ranges::any_of(read, [&](uint32_t v) {
      const uint32_t maker = graph.values[v].maker;
      return maker != kNoIndex && graph.blocks[maker].model == m;
    });
    if (!is_read) {
      // A misspelled input of a loss or a metric is the likelier cause.
      const DataSource& source = plan_.data.train->source();
      const std::vector<FieldInfo> fields = readable_fields(*source.info().schema);
      plan_.model.losses->check_fields(fields, source.name());
      plan_.model.metrics->check_fields(fields, source.name());
      const std::string& name = plan_.model.models->members()[m].use.name;
      throw Error("model.unread",
                  formatted("no loss and no metric reads an output of the model '{}' (it has: {}); "
                            "map an input to \"{}/OUTPUT\" with \"inputs\", or remove the model",
                            name,
                            joined(plan_.model.models->members()[m].graph.output_names()),
                            name));
    }
  }
  check_stored_are_read();
  skip_unread_blocks(plan_.model.graph, read);
}

// Metrics may read what no loss reads.
// Errors  model.unread for a model with stored outputs
void Planner::check_stored_are_read() const {
  if (!plan_.model.metrics->is_empty()) {
    return;
  }
  for (const RunModels::Member& member : plan_.model.models->stored()) {
    const std::string prefix = member.use.name + "/";
    bool is_read = false;
    for (size_t i = 0; i < plan_.model.losses->size(); ++i) {
      is_read = is_read ||
                std::ranges::any_of(plan_.model.losses->fields_read(i),
                                    [&](const auto& field) { return field.starts_with(prefix); });
    }
    if (!is_read) {
      throw Error("model.unread",
                  formatted("no loss and no metric reads an output of the model '{}' (stored: {}); "
                            "map an input to \"{}/OUTPUT\" with \"inputs\", or remove the model",
                            member.use.name,
                            joined(storable_outputs(member.graph)),
                            member.use.name));
    }
  }
}

// A hook that declares to read outputs may ask for any of them. Blocks that read fields which the
// training set lacks cannot run, and are left to losses and metrics; so are heads with
// `loss_chunk`, whose outputs never exist as a whole.
std::vector<uint32_t> Planner::values_for_hooks() const {
  if (!any_reads_outputs(plan_.observers.hooks)) {
    return {};
  }
  const ModelGraph& graph = plan_.model.graph;
  const auto is_chunked = [&](const ModelBlock& block) {
    return recipe_.train.loss_chunk.has_value() && can_run_in_chunks(graph, block) &&
           std::ranges::all_of(block.outputs,
                               [&](uint32_t v) { return graph.values[v].users.empty(); });
  };
  const std::vector<FieldInfo>& fields = *plan_.data.train->source().info().schema;
  std::vector<uint32_t> values;
  for (const ModelBlock& block : graph.blocks) {
    const bool can_run = std::ranges::all_of(block.inputs, [&](uint32_t v) {
      const ModelValue& value = graph.values[v];
      return value.source_kind != TENON_SOURCE_BATCH ||
             find_field(fields, value.source).has_value();
    });
    if (can_run && block.model == 0 && !is_chunked(block)) {
      values.insert(values.end(), block.outputs.begin(), block.outputs.end());
    }
  }
  return values;
}

// ---- steps ----

void Planner::plan_steps() {
  ModelPlan& model = plan_.model;
  const ObserverPlan& observers = plan_.observers;
  create_table_optimizers(model, context_);
  plan_updates(model, context_);
  model.average = find_average(observers.hooks, model.partitions);
  plan_.loop =
      plan_loop(recipe_, *model.losses, observers.hooks, observers.schedule(), context_.role);
  plan_.loop.schedule = schedule_;
  plan_.data.loader = loader_options();
  check_loop(plan_);
  plan_programs(model, context_);
}

LoaderOptions Planner::loader_options() const {
  LoaderOptions options;
  options.batch_size = recipe_.data.batch_size;
  options.rank = context_.samples();
  options.last = recipe_.data.last == LastBatch::kDrop ? Remainder::kDrop : Remainder::kShort;
  options.samples_per_step =
      recipe_.data.batch_size * plan_.loop.microbatches_per_step * context_.role.samples().count;
  options.shuffle = recipe_.data.shuffle;
  options.seed = data_seed();
  options.num_threads = static_cast<int>(recipe_.data.loader_threads);
  // Enough for the whole next step, in addition to data.prefetch.
  options.prefetch = static_cast<int>(recipe_.data.prefetch + plan_.loop.microbatches_per_step);
  options.gpu = context_.gpu;
  options.positions = context_.positions();
  return options;
}

}  // namespace

std::unique_ptr<const RunPlan> plan_run(const PlanContext& context, const RunRequest& request) {
  return Planner(context, request).plan();
}

}  // namespace tenon
