// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_components.hpp"

#include <tenon/hook.h>
#include <tenon/model.h>

#include "host/data/stream_plan.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/model_fields.hpp"
#include "host/recipe/component_options.hpp"
#include "host/recipe/run_rules.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/text/metric_name.hpp"
#include "host/train/components/recomputed_blocks.hpp"
#include "host/train/components/saved_activations.hpp"
#include "host/train/components/sharding_options.hpp"
#include "host/train/objective/chunked_loss.hpp"
#include "host/train/objective/input_binding.hpp"
#include "host/train/pretrained/tokenizer_files.hpp"
#include "host/train/resume/excluded.hpp"
#include "host/train/resume/exports.hpp"
#include "host/train/run/token_limits.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

std::string numbered(const char* role, size_t i) {
  return formatted("{}/{}", role, i);
}

}  // namespace

RunComponents::RunComponents(const RunContext& context)
    : context_(context), recipe_(context.recipe) {
  context_.platform.set_up_process(recipe_);
  models_.emplace(recipe_, context_.factory);
  create_datasets();
  create_losses_and_metrics();
  create_observers();
  graph_ = models_->joined();
  const WeightsImportRequest& import = context_.request.weights;
  if (!import.format.empty()) {
    weights_.emplace(model().instance(), trained_graph(), import);
  }
  table_plan_ = plan_tables(recipe_, trained_graph());
  check_import();
  plan_saves();
  const ExecBase& exec = context_.platform.exec();
  losses_.emplace(std::move(named_losses_), graph_, recipe_.model.name, exec);
  metric_set_.emplace(std::move(named_metrics_), graph_, recipe_.model.name, exec);
  choose_blocks();
  recomputed_ = recomputed_blocks(recipe_.train.recompute, graph_);
  check_run_rules(recipe_,
                  {.is_cpu = exec.device.is_cpu(), .can_keep_attention = can_keep_attention(exec)});
  check_tiles(recipe_.train, graph_);
  check_metric_names();
  check_all_fields();
  check_windows();
  create_tables();
  create_optimizers();
  average_ = find_average(hooks_, partitions_);
  plan_ = plan_loop(recipe_, *losses_, hooks_, scheduler(), context_.platform.role());
  check_loop();
}

// ---- creating ----

void RunComponents::create_datasets() {
  const StoredFields stored = stored_fields();
  train_set_.emplace(context_.factory,
                     recipe_.data.train,
                     "data/train",
                     data_seed(),
                     recipe_.data.shuffle,
                     stored);
  const auto add = [&](std::deque<RunDataset>& sets, const std::vector<EvalSetUse>& uses) {
    for (const EvalSetUse& set : uses) {
      const std::string place = "data/" + set.list + (set.name.empty() ? "" : "/" + set.name);
      sets.emplace_back(context_.factory, set.data, place, data_seed(), false, stored);
    }
  };
  add(eval_sets_, recipe_.data.eval);
  add(test_sets_, recipe_.data.test);
}

void RunComponents::create_losses_and_metrics() {
  ComponentFactory& factory = context_.factory;
  for (size_t i = 0; i < recipe_.losses.size(); ++i) {
    const LossUse& use = recipe_.losses[i];
    named_losses_.push_back({use.name,
                             use.weight,
                             use.inputs,
                             LossProxy(factory.create(use.use, numbered("losses", i)))});
    reported_losses_.push_back(tenon::reported("loss", named_losses_.back().proxy.instance()));
  }
  for (size_t i = 0; i < recipe_.metrics.size(); ++i) {
    const MetricUse& use = recipe_.metrics[i];
    named_metrics_.push_back(
        {use.name, use.inputs, MetricProxy(factory.create(use.use, numbered("metrics", i)))});
    reported_losses_.push_back(tenon::reported("metric", named_metrics_.back().proxy.instance()));
  }
}

void RunComponents::create_observers() {
  ComponentFactory& factory = context_.factory;
  if (recipe_.lr_scheduler.has_value()) {
    scheduler_.emplace(factory.create(*recipe_.lr_scheduler, "lr_scheduler"));
  }
  for (size_t i = 0; i < recipe_.hooks.size(); ++i) {
    if (context_.request.is_eval_only && named_metric(recipe_.hooks[i]).has_value()) {
      continue;  // it decides on training, by a metric that these data sets may not give
    }
    hooks_.emplace_back(factory.create(recipe_.hooks[i], numbered("hooks", i)));
  }
  for (size_t i = 0; i < recipe_.sinks.size(); ++i) {
    sinks_.emplace_back(factory.create(recipe_.sinks[i], numbered("sinks", i)));
  }
}

void RunComponents::create_tables() {
  for (const PlannedTable& table : table_plan_.tables) {
    tables_.push_back({table.spec,
                       SparseOptimizerProxy(
                           context_.factory.create(table.optimizer, "tables/" + table.spec.name)),
                       table.lr,
                       table.clip_row_norm});
  }
}

void RunComponents::create_optimizers() {
  optimizer_plan_ = plan_optimizers(recipe_.optimizer, trained_graph());
  for (size_t i = 0; i < optimizer_plan_.partitions.size(); ++i) {
    const PlannedPartition& partition = optimizer_plan_.partitions[i];
    partitions_.push_back(
        {OptimizerProxy(context_.factory.create(partition.use, numbered("optimizer", i))),
         partition.lr,
         partition.name,
         partition.match,
         partition.use.options});
  }
  for (const OptimizedPartition& partition : partitions_) {
    optimizer_infos_.push_back(partition.optimizer.info());
  }
  check_matrices(optimizer_plan_, optimizer_infos_, trained_graph());
  std::vector<bool> needs_whole(graph_.parameters.size(), false);
  for (size_t p = 0; p < trained_graph().parameters.size(); ++p) {
    needs_whole[p] = !optimizer_infos_[optimizer_plan_.partition_of[p]].is_elementwise();
  }
  unsharded_ = unsharded_parameters(recipe_.parallel, graph_, std::move(needs_whole));
}

// Finds the parameters excluded from checkpoints, and the places of tensors in exports.
void RunComponents::plan_saves() {
  if (!recipe_.checkpoint.has_value()) {
    return;
  }
  std::vector<std::string> tables;
  for (const PlannedTable& table : table_plan_.tables) {
    tables.push_back(table.spec.name);
  }
  excluded_ = excluded_of(recipe_.checkpoint->exclude, trained_graph(), tables);
  for (const ExportRecipe& one : recipe_.checkpoint->exports) {
    if (one.format == ExportFormat::kHf) {
      check_run_rules(recipe_, {.has_parametrizations = !graph_.parametrizations.empty()});
      export_places_ =
          places_in_layout(model().instance(),
                           trained_graph(),
                           export_name(one.format),
                           static_cast<uint32_t>(context_.platform.precision().stored));
      add_tokenizer_files(recipe_, context_.factory, *export_places_);
    }
  }
}

// ---- matching ----

// Decides which blocks run, by the values that losses, metrics and hooks read.
// Errors  model.unread for a model whose outputs nothing reads
void RunComponents::choose_blocks() {
  std::vector<uint32_t> read = values_for_hooks();
  for (size_t i = 0; i < losses_->size(); ++i) {
    const std::vector<uint32_t> of_loss = losses_->values_read(i);
    read.insert(read.end(), of_loss.begin(), of_loss.end());
  }
  const std::vector<uint32_t> of_metrics = metric_set_->values_read();
  read.insert(read.end(), of_metrics.begin(), of_metrics.end());
  for (size_t m = 1; m < models_->members().size(); ++m) {
    const bool is_read = std::ranges::any_of(read, [&](uint32_t v) {
      return graph_.values[v].maker != kNoIndex && graph_.blocks[graph_.values[v].maker].model == m;
    });
    if (!is_read) {
      // A misspelled input of a loss or a metric is the likelier cause.
      const DataSource& source = train_set_->source();
      const std::vector<FieldInfo> fields = readable_fields(*source.info().schema);
      losses_->check_fields(fields, source.name());
      metric_set_->check_fields(fields, source.name());
      const std::string& name = models_->members()[m].use.name;
      throw Error("model.unread",
                  formatted("no loss and no metric reads an output of the model '{}' (it has: {}); "
                            "map an input to \"{}/OUTPUT\" with \"inputs\", or remove the model",
                            name,
                            joined(models_->members()[m].graph.output_names()),
                            name));
    }
  }
  check_stored_are_read();
  skip_unread_blocks(graph_, read);
}

// Metrics may read what no loss reads.
// Errors  model.unread for a model with stored outputs
void RunComponents::check_stored_are_read() const {
  if (!metric_set_->is_empty()) {
    return;
  }
  for (const RunModels::Member& member : models_->stored()) {
    const std::string prefix = member.use.name + "/";
    bool is_read = false;
    for (size_t i = 0; i < losses_->size(); ++i) {
      is_read = is_read || std::ranges::any_of(losses_->fields_read(i), [&](const auto& field) {
                  return field.starts_with(prefix);
                });
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
std::vector<uint32_t> RunComponents::values_for_hooks() {
  const bool is_asked = std::ranges::any_of(
      hooks_, [](const HookProxy& hook) { return (hook.info().reads & TENON_TOUCH_OUTPUTS) != 0; });
  if (!is_asked) {
    return {};
  }
  const auto is_chunked = [this](const ModelBlock& block) {
    return recipe_.train.loss_chunk.has_value() && can_run_in_chunks(graph_, block) &&
           std::ranges::all_of(block.outputs,
                               [this](uint32_t v) { return graph_.values[v].users.empty(); });
  };
  const std::vector<FieldInfo>& fields = *train_set_->source().info().schema;
  std::vector<uint32_t> values;
  for (const ModelBlock& block : graph_.blocks) {
    const bool can_run = std::ranges::all_of(block.inputs, [&](uint32_t v) {
      const ModelValue& value = graph_.values[v];
      return value.source_kind != TENON_SOURCE_BATCH ||
             find_field(fields, value.source).has_value();
    });
    if (can_run && block.model == 0 && !is_chunked(block)) {
      values.insert(values.end(), block.outputs.begin(), block.outputs.end());
    }
  }
  return values;
}

void RunComponents::check_import() const {
  const TableFolders& files = context_.request.tables;
  if (table_plan_.tables.empty() && !(files.import_from.empty() && files.export_to.empty())) {
    throw Error("table.unknown",
                "model '" + recipe_.model.name +
                    "' looks up no tables, so that there are no rows to import or export; leave "
                    "--import-tables and --export-tables out");
  }
}

// Checks all metric names now, because evaluations write theirs only later.
void RunComponents::check_metric_names() const {
  std::vector<std::string> names = metric_set_->training_metrics();
  std::vector<std::string> prefixes = {""};
  const auto add_prefix = [&](const std::string& prefix, const char* suffix) {
    prefixes.push_back(prefix);
    for (const std::string& name : metric_set_->evaluation_metrics()) {
      names.push_back(prefix + name + suffix);
    }
  };
  for (const EvalSetUse& set : recipe_.data.eval) {
    add_prefix(eval_prefix(set), recipe_.eval.with_window != WithWindow::kNever ? "/run" : "");
  }
  for (const EvalSetUse& set : recipe_.data.test) {
    add_prefix(eval_prefix(set), "");
  }
  if (recipe_.eval.next_window) {
    add_prefix("next/", "/run");
  }
  const bool has_names = losses_->size() > 1 || losses_->weight(0) != 1;
  for (const std::string& prefix : prefixes) {
    for (size_t i = 0; has_names && i < losses_->size(); ++i) {
      names.push_back(prefix + "loss/" + losses_->name(i));
    }
  }
  for (const std::string& name : names) {
    if (!is_legal_metric_name(name)) {
      throw Error(
          "recipe.out_of_range",
          formatted("the metric name '{}' has {} characters (at most 100); give the loss, the "
                    "metric or the evaluation set in it a shorter \"name\"",
                    name,
                    name.size()));
    }
  }
}

// Rejects keys that need windows if the dataset has none.
void RunComponents::check_windows() {
  const auto has_windows = [](RunDataset& set) { return set.source().info().has_windows; };
  check_run_rules(recipe_,
                  {.train_data = train_set_->source().name(),
                   .train_has_windows = has_windows(*train_set_),
                   .eval_has_windows = std::ranges::any_of(eval_sets_, has_windows)});
}

void RunComponents::check_all_fields() {
  for (DataSource* const source : sources()) {
    check_fields(*source);
  }
}

void RunComponents::check_fields(DataSource& source) {
  const std::vector<FieldInfo> fields = readable_fields(*source.info().schema);
  try {
    check_model_fields(graph_, fields, source.name());
  } catch (const Error& error) {  // add the model's identity: the check knows only its graph
    throw error.with_context(model().instance().identity().describe());
  }
  TableSet::check_fields(table_plan_.lookups, fields, source.name());
  losses_->check_fields(fields, source.name());
  metric_set_->check_fields(fields, source.name());
  if (source.packed() != nullptr) {
    check_packing(source);
  }
  const bool is_sized = source.info().style == DatasetStyle::kMap && !source.info().has_windows;
  if (is_sized && source.size(nullptr) == 0) {
    throw Error("data.empty", source.name() + " has no samples");
  }
  if (source.info().style == DatasetStyle::kStream) {
    shards_of_rank(source, data_rank(), {});  // throws if there are fewer shards than ranks
  }
  check_token_limits(recipe_, models_->trained().use.use, graph_, context_.factory, source);
}

// The samples of a row share its positions, so the model has to keep them apart, and losses have to
// be sums over positions.
void RunComponents::check_packing(DataSource& source) const {
  const auto reads = [this](std::string_view field) {
    return std::ranges::any_of(graph_.values, [field](const ModelValue& value) {
      return value.source_kind == TENON_SOURCE_BATCH && value.source == field &&
             !value.users.empty();
    });
  };
  if (!reads("segment_ids")) {
    throw Error("data.cannot_pack",
                source.name() + " is packed, but " +
                    models_->trained().proxy.instance().identity().describe() +
                    " does not read segment_ids, so the samples of a row would attend to each "
                    "other; choose a model that does, or remove \"packing\"");
  }
  const PackOptions& options = source.packed()->options();
  if (!source.info().has_windows) {
    const LengthSummary lengths = source.length_summary(nullptr);
    if (options.over_long == OverLong::kError) {
      check_longest(lengths, nullptr, options);
    }
  }
  if (!reads("position_ids") && context_.platform.role().is_first()) {
    log_warning(source.name() + " is packed, but " +
                models_->trained().proxy.instance().identity().describe() +
                " does not read position_ids: its positions do not restart with each sample");
  }
  for (size_t i = 0; i < losses_->size(); ++i) {
    if (!losses_->is_additive_over_tokens(i)) {
      throw Error("data.cannot_pack",
                  source.name() + " is packed, but " + losses_->text(i) +
                      " is not a sum over tokens, so it would treat the samples of a row as one; "
                      "choose another loss, or remove \"packing\"");
    }
  }
}

void RunComponents::check_loop() {
  check_own_schedules(optimizer_plan_,
                      optimizer_infos_,
                      scheduler_.has_value() ? &*scheduler_ : nullptr,
                      plan_.total_steps);
  if (recipe_.train.normalize == Normalize::kItems && !context_.request.is_eval_only) {
    losses_->check_additive(plan_.microbatches_per_step * context_.platform.role().samples().count);
  }
  if (recipe_.train.loss_chunk.has_value()) {
    check_chunking(graph_, *losses_, *metric_set_, plan_.counts_ahead);
  }
  if (recipe_.train.loss_by_source) {
    check_sources();
  }
}

void RunComponents::check_sources() {
  DataSource& trained = train_set_->source();
  if (trained.parts().empty() || trained.info().style != DatasetStyle::kMap) {
    throw Error("loss.not_by_source",
                "/train/loss_by_source: " + trained.name() +
                    (trained.parts().empty()
                         ? " is no mixture, so there is one source only"
                         : " has a stream, which does not say which source a sample is from") +
                    "; set it to false");
  }
  for (DataSource* const source : sources()) {
    if (!source->parts().empty()) {
      losses_->check_by_source(source->name(), source->packed() != nullptr);
    }
  }
}

// ---- for the engine and the report ----

std::vector<DataSource*> RunComponents::sources() {
  std::vector<DataSource*> sources = {&train_set_->source()};
  for (auto* const sets : {&eval_sets_, &test_sets_}) {
    for (RunDataset& set : *sets) {
      sources.push_back(&set.source());
    }
  }
  return sources;
}

std::vector<StoredSource*> RunComponents::stored_sources() {
  std::vector<StoredSource*> found = {train_set_->stored()};
  for (auto* const sets : {&eval_sets_, &test_sets_}) {
    for (RunDataset& set : *sets) {
      found.push_back(set.stored());
    }
  }
  std::erase(found, nullptr);
  return found;
}

StoredFields RunComponents::stored_fields() const {
  return {.names = models_->stored_fields(), .dtype = context_.platform.precision().exact()};
}

uint64_t RunComponents::data_seed() const {
  return mix_seeds(recipe_.seed, stream_of("data"));
}

DataRank RunComponents::data_rank() const {
  const RankIndex share = context_.platform.role().samples();
  return {.rank = share.index, .size = share.count};
}

ParameterLayout RunComponents::parameter_layout() const {
  const RunPlatform& platform = context_.platform;
  ParameterLayout layout;
  layout.dtype = platform.precision().stored;
  layout.seen_dtype = platform.precision().compute;
  layout.device = platform.device();
  layout.partition_of = [this](uint32_t p) { return optimizer_plan_.partition_of[p]; };
  layout.sharing = sharing_of(recipe_.parallel, platform.role(), platform.device());
  layout.unsharded = unsharded_of(platform.role());
  layout.sharing.frees_gradients = recipe_.train.update_in_backward;
  layout.unsharded.frees_gradients = recipe_.train.update_in_backward;
  layout.is_unsharded = [this](uint32_t p) { return unsharded_[p]; };
  layout.block_of = [this](uint32_t p) {
    return optimizer_infos_[optimizer_plan_.partition_of[p]].block;
  };
  return layout;
}

LoaderOptions RunComponents::loader_options() const {
  LoaderOptions options;
  options.batch_size = recipe_.data.batch_size;
  options.rank = data_rank();
  options.last = recipe_.data.last == LastBatch::kDrop ? Remainder::kDrop : Remainder::kShort;
  options.samples_per_step = recipe_.data.batch_size * plan_.microbatches_per_step *
                             context_.platform.role().samples().count;
  options.shuffle = recipe_.data.shuffle;
  options.seed = data_seed();
  options.num_threads = static_cast<int>(recipe_.data.loader_threads);
  // Enough for the whole next step, in addition to data.prefetch.
  options.prefetch = static_cast<int>(recipe_.data.prefetch + plan_.microbatches_per_step);
  options.gpu = context_.platform.gpu();
  return options;
}

std::string RunComponents::model_detail() const {
  const int64_t frozen = graph_.num_frozen_elements();
  return formatted("{} parameters in {}{}",
                   grouped_digits(graph_.num_elements()),
                   counted(graph_.blocks.size(), "block"),
                   frozen > 0 ? formatted(", {} of them frozen", grouped_digits(frozen)) : "");
}

std::vector<ReportedComponent> RunComponents::reported() {
  std::vector<ReportedComponent> all = {
      tenon::reported("model", model().instance(), model_detail())};
  const auto add = [&all](const std::vector<ReportedComponent>& lines) {
    all.insert(all.end(), lines.begin(), lines.end());
  };
  for (size_t i = 1; i < models_->members().size(); ++i) {
    const RunModels::Member& member = models_->members()[i];
    all.push_back(tenon::reported(
        member.use.name,
        member.proxy.instance(),
        grouped_digits(member.graph.num_elements()) + " parameters that are not trained"));
  }
  for (const RunModels::Member& member : models_->stored()) {
    all.push_back(tenon::reported(
        member.use.name, member.proxy.instance(), "outputs computed before training, and stored"));
  }
  add(train_set_->reported("data"));
  const auto add_sets = [&](std::deque<RunDataset>& sets, const std::vector<EvalSetUse>& uses) {
    for (size_t i = 0; i < sets.size(); ++i) {
      add(sets[i].reported(uses[i].list + (uses[i].name.empty() ? "" : "/" + uses[i].name)));
    }
  };
  add_sets(eval_sets_, recipe_.data.eval);
  add_sets(test_sets_, recipe_.data.test);
  add(train_set_->reported_features());
  add(reported_losses_);
  all.push_back(tenon::reported("optimizer", partitions_.front().optimizer.instance()));
  if (scheduler_.has_value()) {
    all.push_back(tenon::reported("schedule", scheduler_->instance()));
  }
  for (const HookProxy& hook : hooks_) {
    all.push_back(tenon::reported("hook", hook.instance()));
  }
  for (const MetricSinkProxy& sink : sinks_) {
    all.push_back(tenon::reported("sink", sink.instance()));
  }
  return all;
}

}  // namespace tenon
