// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/plan_checks.hpp"

#include <tenon/model.h>

#include "host/data/stream_plan.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/model_fields.hpp"
#include "host/model/positions_axis.hpp"
#include "host/recipe/run_rules.hpp"
#include "host/tensor/batch_positions.hpp"
#include "host/text/formatted.hpp"
#include "host/text/metric_name.hpp"
#include "host/train/objective/chunked_loss.hpp"
#include "host/train/run_plan/divided_model.hpp"
#include "host/train/run_plan/pipeline_model.hpp"
#include "host/train/run_plan/run_plan.hpp"
#include "host/train/run_plan/token_limits.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

// The samples of a row share its positions, so the model has to keep them apart, and losses have to
// be sums over positions.
void check_packing(const RunPlan& plan, DataSource& source) {
  const auto reads = [&plan](std::string_view field) {
    return std::ranges::any_of(plan.model.graph.values, [field](const ModelValue& value) {
      return value.source_kind == TENON_SOURCE_BATCH && value.source == field &&
             !value.users.empty();
    });
  };
  if (!reads("segment_ids")) {
    throw Error("data.cannot_pack",
                source.name() + " is packed, but " +
                    plan.model.trained().instance().identity().describe() +
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
  if (!reads("position_ids") && plan.context.role.is_first()) {
    log_warning(source.name() + " is packed, but " +
                plan.model.trained().instance().identity().describe() +
                " does not read position_ids: its positions do not restart with each sample");
  }
  for (size_t i = 0; i < plan.model.losses->size(); ++i) {
    if (!plan.model.losses->is_additive_over_tokens(i)) {
      throw Error("data.cannot_pack",
                  source.name() + " is packed, but " + plan.model.losses->text(i) +
                      " is not a sum over tokens, so it would treat the samples of a row as one; "
                      "choose another loss, or remove \"packing\"");
    }
  }
}

void check_fields(const RunPlan& plan, DataSource& source) {
  const std::vector<FieldInfo> fields = readable_fields(*source.info().schema);
  try {
    check_model_fields(plan.model.graph, fields, source.name());
  } catch (const Error& error) {  // add the model's identity: the check knows only its graph
    throw error.with_context(plan.model.trained().instance().identity().describe());
  }
  TableSet::check_fields(plan.model.lookups.lookups, fields, source.name());
  plan.model.losses->check_fields(fields, source.name());
  plan.model.metrics->check_fields(fields, source.name());
  if (source.packed() != nullptr) {
    check_packing(plan, source);
  }
  const bool is_sized = source.info().style == DatasetStyle::kMap && !source.info().has_windows;
  if (is_sized && source.size(nullptr) == 0) {
    throw Error("data.empty", source.name() + " has no samples");
  }
  if (source.info().style == DatasetStyle::kStream) {
    shards_of_rank(
        source, plan.context.samples(), {});  // throws if there are fewer shards than ranks
  }
  check_token_limits(plan.recipe(),
                     plan.model.models->trained().use.use,
                     plan.model.graph,
                     plan.context.factory,
                     source);
}

void check_sources(const RunPlan& plan) {
  DataSource& trained = plan.data.train->source();
  if (trained.parts().empty() || trained.info().style != DatasetStyle::kMap) {
    throw Error("loss.not_by_source",
                "/train/loss_by_source: " + trained.name() +
                    (trained.parts().empty()
                         ? " is no mixture, so there is one source only"
                         : " has a stream, which does not say which source a sample is from") +
                    "; set it to false");
  }
  for (DataSource* const source : plan.data.sources()) {
    if (!source->parts().empty()) {
      plan.model.losses->check_by_source(source->name(), source->packed() != nullptr);
    }
  }
}

// ---- positions divided among ranks ----

bool has_positions(const FieldInfo& field) {
  return position_axis(field.axes).has_value();
}

// `way_out`: "set it to 1"
void check_positions(DataSource& source, const std::string& key, const char* way_out) {
  if (std::ranges::none_of(*source.info().schema, has_positions)) {
    throw Error("data.no_positions",
                "/parallel/" + key + " divides the positions of sequences, and no field of " +
                    source.name() + " has an axis \"T\"; " + way_out);
  }
}

// Fields with an axis T are cut, and values with an axis T are parts: both have to say the same.
void check_inputs(const RunPlan& plan, DataSource& source) {
  const std::vector<FieldInfo> fields = readable_fields(*source.info().schema);
  for (const ModelValue& value : plan.model.graph.values) {
    const auto at = find_field(fields, value.source);
    if (value.source_kind != TENON_SOURCE_BATCH || value.users.empty() || !at.has_value() ||
        has_positions(fields[*at]) == axis_of_positions(value).has_value()) {
      continue;
    }
    const bool is_cut = has_positions(fields[*at]);
    throw Error("model.undivided",
                formatted("/parallel/context {} divides the positions of sequences, and the field "
                          "'{}' of {} {} an axis \"T\", while the input '{}' of {} {}; declare the "
                          "axis in both, or set the key to 1",
                          plan.recipe().parallel.context,
                          value.source,
                          source.name(),
                          is_cut ? "has" : "has no",
                          value.name,
                          plan.model.trained().instance().identity().describe(),
                          is_cut ? "has none" : "has one"));
  }
}

// Rows that a sample has once would be looked up, and counted, on each rank.
void check_lookups(const RunPlan& plan) {
  for (const ModelValue& value : plan.model.graph.values) {
    if (value.lookup.has_value() && !axis_of_positions(value).has_value()) {
      throw Error("model.undivided",
                  plan.model.trained().instance().identity().describe() + ": the rows '" +
                      value.name +
                      "' of a table have no axis \"T\", so ranks that divide the positions of a "
                      "sequence would each count them; set /parallel/context to 1");
    }
  }
}

void check_blocks(const RunPlan& plan) {
  const ModelGraph& graph = plan.model.graph;
  const std::vector<bool> whole = whole_blocks(graph);
  const auto num_whole = std::ranges::count(whole, true);
  if (num_whole == 0) {
    return;
  }
  const auto first = static_cast<size_t>(std::ranges::find(whole, true) - whole.begin());
  const ModelBlock& block = graph.blocks[first];
  const std::string name = "block '" + block.name + "'";
  if (plan.recipe().parallel.undeclared == UndeclaredBlocks::kRefuse) {
    throw Error(
        "model.undivided",
        formatted("/parallel/context {} divides the positions of sequences, and {} does not "
                  "declare that it can run on a part of them: its flags have neither "
                  "TENON_BLOCK_TOKENWISE nor TENON_BLOCK_CONTEXT, or one of its inputs and "
                  "outputs has no axis \"T\". Set /parallel/undeclared to \"whole\": each "
                  "rank then runs such blocks ({} of {}) on whole sequences",
                  plan.recipe().parallel.context,
                  name,
                  num_whole,
                  whole.size()));
  }
  if (plan.context.role.is_first()) {
    log_warning(
        formatted("{} of {} blocks run on whole sequences on each of the {} ranks that "
                  "divide positions, since they do not declare otherwise; the first is {}",
                  num_whole,
                  whole.size(),
                  plan.recipe().parallel.context,
                  name));
  }
}

}  // namespace

void check_import(const RunPlan& plan) {
  const TableFolders& files = plan.request.tables;
  if (plan.model.lookups.tables.empty() &&
      !(files.import_from.empty() && files.export_to.empty())) {
    throw Error("table.unknown",
                "model '" + plan.recipe().model.name +
                    "' looks up no tables, so that there are no rows to import or export; leave "
                    "--import-tables and --export-tables out");
  }
}

// Checks all metric names now, because evaluations write theirs only later.
void check_metric_names(const RunPlan& plan) {
  std::vector<std::string> names = plan.model.metrics->training_metrics();
  std::vector<std::string> prefixes = {""};
  const auto add_prefix = [&](const std::string& prefix, const char* suffix) {
    prefixes.push_back(prefix);
    for (const std::string& name : plan.model.metrics->evaluation_metrics()) {
      names.push_back(prefix + name + suffix);
    }
  };
  for (const EvalSetUse& set : plan.recipe().data.eval) {
    add_prefix(eval_prefix(set),
               plan.recipe().eval.with_window != WithWindow::kNever ? "/run" : "");
  }
  for (const EvalSetUse& set : plan.recipe().data.test) {
    add_prefix(eval_prefix(set), "");
  }
  if (plan.recipe().eval.next_window) {
    add_prefix("next/", "/run");
  }
  const bool has_names = plan.model.losses->size() > 1 || plan.model.losses->weight(0) != 1;
  for (const std::string& prefix : prefixes) {
    for (size_t i = 0; has_names && i < plan.model.losses->size(); ++i) {
      names.push_back(prefix + "loss/" + plan.model.losses->name(i));
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

void check_all_fields(const RunPlan& plan) {
  for (DataSource* const source : plan.data.sources()) {
    check_fields(plan, *source);
  }
}

// The messages name the first of several.
void check_context(const RunPlan& plan) {
  const Recipe& recipe = plan.recipe();
  if (recipe.parallel.context == 1) {
    return;
  }
  for (DataSource* const source : plan.data.sources()) {
    check_positions(*source, "context", "set it to 1");
    check_inputs(plan, *source);
  }
  check_lookups(plan);
  check_blocks(plan);
  const std::vector<FieldInfo>& schema = *plan.data.train->source().info().schema;
  const char* const key = recipe.train.loss_chunk.has_value() ? "loss_chunk"
                          : recipe.train.loss_by_source       ? "loss_by_source"
                                                              : nullptr;
  for (size_t i = 0; key != nullptr && i < plan.model.losses->size(); ++i) {
    if (!plan.model.losses->sees_parts(i, schema)) {
      throw Error("loss.undivided",
                  formatted("/train/{} with /parallel/context {}: {} sees whole sequences, because "
                            "it is no sum over tokens or reads an input without an axis \"T\"; "
                            "remove one of the two keys",
                            key,
                            recipe.parallel.context,
                            plan.model.losses->text(i)));
    }
  }
}

void check_tensor(const RunPlan& plan) {
  if (plan.context.role.tensor().count > 1 && !plan.model.lookups.tables.empty()) {
    throw Error("recipe.not_available",
                formatted("/parallel/tensor {}: {} looks up rows of the table '{}', which this "
                          "release does not share among ranks that divide blocks; set it to 1",
                          plan.recipe().parallel.tensor,
                          plan.model.trained().instance().identity().describe(),
                          plan.model.lookups.tables.front().spec.name));
  }
  for (DataSource* const source : plan.data.sources()) {
    if (plan.recipe().parallel.sequence_parallel) {
      check_positions(*source, "sequence_parallel", "set it to false");
    }
  }
  const std::string text = whole_blocks_text(plan.model.graph, plan.context.role.tensor());
  if (!text.empty() && plan.context.role.is_first()) {
    log_warning(text);
  }
}

void check_pipeline(const RunPlan& plan) {
  const std::string text = stages_text(plan.model.graph);
  if (!text.empty() && plan.context.role.is_first()) {
    log_info(text);
  }
}

// Rejects keys that need windows if the dataset has none.
void check_windows(const RunPlan& plan) {
  const auto has_windows = [](RunDataset& set) { return set.source().info().has_windows; };
  const auto any_has_windows =
      std::ranges::any_of(plan.data.eval, [&](const auto& set) { return has_windows(*set); });
  check_run_rules(plan.recipe(),
                  {.train_data = plan.data.train->source().name(),
                   .train_has_windows = has_windows(*plan.data.train),
                   .eval_has_windows = any_has_windows});
}

void check_loop(const RunPlan& plan) {
  check_own_schedules(plan.model.optimizers,
                      plan.model.optimizer_infos(),
                      plan.observers.schedule(),
                      plan.loop.total_steps);
  if (plan.recipe().train.normalize == Normalize::kItems && !plan.request.is_eval_only) {
    plan.model.losses->check_additive(plan.loop.microbatches_per_step *
                                      plan.context.role.samples().count);
  }
  if (plan.recipe().train.loss_chunk.has_value()) {
    check_chunking(
        plan.model.graph, *plan.model.losses, *plan.model.metrics, plan.loop.counts_ahead);
  }
  if (plan.recipe().train.loss_by_source) {
    check_sources(plan);
  }
}

}  // namespace tenon
