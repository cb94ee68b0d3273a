// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_build.hpp"

#include "host/recipe/contradiction.hpp"
#include "host/recipe/frozen.hpp"
#include "host/recipe/json_path.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;
using Uses = std::map<std::string, ComponentUse>;

// Of the keys that a mix and one dataset do not share, those of the mix.
void complete_mix(json& dataset) {
  dataset.erase("options");
  if (!dataset.contains("when_one_ends")) {
    dataset["when_one_ends"] = "repeat";
  }
  for (std::size_t i = 0; i < dataset["mix"].size(); ++i) {
    json& entry = dataset["mix"][i];
    if (!entry.contains("name")) {
      entry["name"] = mix_name(entry["type"].get<std::string>(), i);
    }
  }
}

// What the schema's defaults cannot say, since it follows from other keys or from the machine. Done
// when all is known to be good; after it the recipe is complete.
void complete(json& root, const RecipeParts& parts) {
  if (!root.contains("name")) {
    root["name"] = as_name(std::filesystem::path(parts.path).stem().string());
  }
  json& compute = root["threads"]["compute"];
  if (compute.is_null()) {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    compute = parts.compute_threads > 0 ? parts.compute_threads : cores;
  }
  json& train = root["train"];
  if (!train["global_batch_size"].is_null()) {
    train["gradient_accumulation"] = nullptr;
  } else if (train["gradient_accumulation"].is_null()) {
    train["gradient_accumulation"] = 1;
  }
  for (json* const every : {&train["log_every"],
                            &root["eval"]["every_steps"],
                            &root["eval"]["every_windows"],
                            &root["eval"]["every_epochs"]}) {
    if (every->is_null()) {
      *every = 0;
    }
  }
  if (json& checkpoint = root["checkpoint"]; checkpoint.is_object()) {
    for (const char* const key :
         {"every_steps", "every_windows", "every_epochs", "keep_every_steps"}) {
      if (checkpoint[key].is_null()) {
        checkpoint[key] = 0;
      }
    }
    for (json& one : checkpoint["exports"]) {
      for (const char* const key : {"every_steps", "every_windows", "every_epochs"}) {
        if (one[key].is_null()) {
          one[key] = 0;
        }
      }
    }
  }
  for (json& load : root["load"]) {
    for (const char* const key : {"every_steps", "every_windows", "every_epochs"}) {
      if (load[key].is_null()) {
        load[key] = 0;
      }
    }
  }
  if (root["data"]["eval"].is_null()) {
    root["eval"]["at_end"] = false;
  }
  const auto give_name = [](json& node) {
    if (!node.contains("name")) {
      node["name"] = default_name(node["type"].get<std::string>());
    }
  };
  if (root.contains("loss")) {
    give_name(root["loss"]);
  } else {
    std::ranges::for_each(root["losses"], give_name);
  }
  std::ranges::for_each(root["metrics"], give_name);
  for (json& feature : root["features"]) {
    if (feature["from"].is_string()) {
      feature["from"] = json::array({feature["from"]});
    }
  }
  for (const std::string& pointer : dataset_pointers(root)) {
    if (json& dataset = *find_at(root, pointer); dataset.contains("mix")) {
      complete_mix(dataset);
    }
  }
}

// The pointer in the long form of what stands at `pointer` in the form written.
std::string long_pointer(const json& root, const std::string& pointer) {
  if (root.contains("model") && is_at_or_below(pointer, "/model")) {
    return "/models/main" + pointer.substr(std::string_view("/model").size());
  }
  if (root.contains("loss") && is_at_or_below(pointer, "/loss")) {
    return "/losses/0" + pointer.substr(std::string_view("/loss").size());
  }
  return pointer;
}

// The complete recipe in its long form.
json long_form(const json& root, const RecipeParts& parts) {
  json result = root;
  result.erase("$schema");  // it may be relative to the folder of the file that was written
  for (std::size_t i = 0; i < parts.groups.size(); ++i) {
    json group = *parts.groups[i].frozen;
    group["match"] = root["optimizer"]["groups"][i]["match"];
    group["type"] = parts.groups[i].use.type;
    result["optimizer"]["groups"][i] = std::move(group);
  }
  for (const ComponentRef& ref : parts.refs) {
    // One that a group inherits from its optimizer is not written there.
    if (json* const node = find_at(result, ref.pointer)) {
      (*node)["ref"] = long_pointer(root, ref.target);
    }
  }
  if (result.contains("model")) {
    result["models"]["main"] = std::move(result["model"]);
    result.erase("model");
  }
  if (result.contains("loss")) {
    result["losses"] = json::array({std::move(result["loss"])});
    result.erase("loss");
  }
  return result;
}

template <typename Number>
std::optional<Number> optional_at(const json& object, const char* key) {
  const json& value = object.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<Number>());
}

ModelUse build_model(const json& root, const Uses& uses) {
  const bool is_brief = root.contains("model");
  const std::string name = is_brief ? "main" : root["models"].begin().key();
  const std::string pointer = is_brief ? "/model" : join_pointer("/models", name);
  const json& node = is_brief ? root["model"] : root["models"].front();
  return {.name = name,
          .inputs = node["inputs"].get<InputMap>(),
          .frozen = node["frozen"].get<std::vector<std::string>>(),
          .use = uses.at(pointer)};
}

std::vector<LossUse> build_losses(const json& root, const Uses& uses) {
  const auto build = [&uses](const json& node, const std::string& pointer) {
    return LossUse{.name = node["name"].get<std::string>(),
                   .weight = node["weight"].get<double>(),
                   .inputs = node["inputs"].get<InputMap>(),
                   .use = uses.at(pointer)};
  };
  if (root.contains("loss")) {
    return {build(root["loss"], "/loss")};
  }
  std::vector<LossUse> losses;
  for (std::size_t i = 0; i < root["losses"].size(); ++i) {
    losses.push_back(build(root["losses"][i], join_pointer("/losses", i)));
  }
  return losses;
}

std::vector<MetricUse> build_metrics(const json& root, const Uses& uses) {
  std::vector<MetricUse> metrics;
  for (std::size_t i = 0; i < root["metrics"].size(); ++i) {
    const json& node = root["metrics"][i];
    metrics.push_back({.name = node["name"].get<std::string>(),
                       .inputs = node["inputs"].get<InputMap>(),
                       .use = uses.at(join_pointer("/metrics", i))});
  }
  return metrics;
}

DatasetUse build_dataset(const json& root, const std::string& pointer, const Uses& uses) {
  const json& node = *find_at(root, pointer);
  if (!node.contains("mix")) {
    return {.use = uses.at(pointer)};
  }
  const json& when = node["when_one_ends"];
  DatasetUse dataset{.when_one_ends = when == "repeat" ? WhenSourceEnds::kRepeat
                                      : when == "stop" ? WhenSourceEnds::kStop
                                                       : WhenSourceEnds::kContinue};
  for (std::size_t i = 0; i < node["mix"].size(); ++i) {
    const json& entry = node["mix"][i];
    dataset.mix.push_back({.name = entry["name"].get<std::string>(),
                           .weight = entry["weight"].get<double>(),
                           .use = uses.at(join_pointer(pointer + "/mix", i))});
  }
  return dataset;
}

DataRecipe build_data(const json& root, const Uses& uses) {
  const json& data = root["data"];
  DataRecipe result{
      .batch_size = data["batch_size"].get<std::int64_t>(),
      .shuffle = data["shuffle"].get<bool>(),
      .loader_threads = data["loader_threads"].get<std::int64_t>(),
      .prefetch = data["prefetch"].get<std::int64_t>(),
      .last = data["last"] == "drop" ? LastBatch::kDrop : LastBatch::kShort,
      .timeout_seconds = optional_at<double>(data, "timeout_seconds"),
      .train = build_dataset(root, "/data/train", uses),
      .eval = {},
      .test = {},
      .skip_windows = {},
  };
  for (const EvalSite& site : eval_sites(root)) {
    (site.list == "test" ? result.test : result.eval)
        .push_back({.list = site.list,
                    .name = site.name,
                    .data = build_dataset(root, site.pointer, uses)});
  }
  for (const json& name : data["skip_windows"]) {
    if (name.is_string()) {
      result.skip_windows.emplace_back(name.get<std::string>());
    } else {
      result.skip_windows.emplace_back(name.get<std::uint64_t>());
    }
  }
  return result;
}

std::vector<FeatureUse> build_features(const json& root, const Uses& uses) {
  std::vector<FeatureUse> features;
  for (std::size_t i = 0; i < root["features"].size(); ++i) {
    const json& node = root["features"][i];
    const std::string steps = join_pointer("/features", i) + "/do";
    FeatureUse& feature = features.emplace_back();
    feature.name = node["name"].get<std::string>();
    feature.from = node["from"].get<std::vector<std::string>>();
    for (std::size_t step = 0; step < node["do"].size(); ++step) {
      feature.steps.push_back(uses.at(join_pointer(steps, step)));
    }
  }
  return features;
}

// "8GiB", "1.5 GB", or a number of bytes.
std::int64_t bytes_of(const json& node) {
  if (node.is_number()) {
    return node.get<std::int64_t>();
  }
  const auto& text = node.get_ref<const std::string&>();
  std::size_t end = 0;
  double value = std::stod(text, &end);
  const std::size_t unit = text.find_first_not_of(' ', end);
  if (unit != std::string::npos && text[unit] != 'B') {
    const double base = text[unit + 1] == 'i' ? 1024 : 1000;
    for (std::size_t i = 0; i <= std::string_view("KMGT").find(text[unit]); ++i) {
      value *= base;
    }
  }
  return static_cast<std::int64_t>(std::min(value, 9e18));
}

RowInitRecipe build_row_init(const json& node) {
  const json& type = node["type"];
  return {.kind = type == "zeros"          ? RowInitKind::kZeros
                  : type == "ones"         ? RowInitKind::kOnes
                  : type == "constant"     ? RowInitKind::kConstant
                  : type == "normal"       ? RowInitKind::kNormal
                  : type == "trunc_normal" ? RowInitKind::kTruncNormal
                                           : RowInitKind::kUniform,
          .value = node["value"].get<double>(),
          .mean = node["mean"].get<double>(),
          .deviation = node["deviation"].get<double>(),
          .low = node["low"].get<double>(),
          .high = node["high"].get<double>()};
}

EvictRecipe build_evict(const json& node) {
  return {.unseen_steps = optional_at<std::int64_t>(node, "unseen_steps"),
          .min_count = optional_at<std::int64_t>(node, "min_count"),
          .max_rows = optional_at<std::int64_t>(node, "max_rows"),
          .policy = node["policy"] == "least_recent" ? RowsToEvict::kLeastRecent
                                                     : RowsToEvict::kLeastFrequent};
}

template <typename Value>
std::optional<Value> if_there(const json& object, const char* key) {
  return object.contains(key) ? std::optional(object[key].get<Value>()) : std::nullopt;
}

TableRecipe build_table(const std::string& name, const json& node, const Uses& uses) {
  TableRecipe table;
  table.name = name;
  table.features = node.value("features", std::vector<std::string>{});
  table.dim = if_there<std::int64_t>(node, "dim");
  if (node.contains("dtype")) {
    table.dtype = node["dtype"] == "fp32"   ? TableDtype::kFp32
                  : node["dtype"] == "bf16" ? TableDtype::kBf16
                                            : TableDtype::kFp16;
  }
  if (node.contains("optimizer")) {
    table.optimizer = uses.at(join_pointer("/tables", name) + "/optimizer");
  }
  if (node.contains("init")) {
    table.init = build_row_init(node["init"]);
  }
  if (node.contains("admit")) {
    table.admit = AdmitRecipe{.count = node["admit"]["count"].get<std::int64_t>(),
                              .probability = node["admit"]["probability"].get<double>()};
  }
  if (node.contains("evict")) {
    table.evict = build_evict(node["evict"]);
  }
  if (node.contains("bytes")) {
    table.bytes = bytes_of(node["bytes"]);
  }
  table.missing = if_there<double>(node, "missing");
  table.clip_row_norm = if_there<double>(node, "clip_row_norm");
  table.lr_factor = if_there<double>(node, "lr_factor");
  return table;
}

std::vector<TableRecipe> build_tables(const json& nodes, const Uses& uses) {
  std::vector<TableRecipe> tables;
  for (const auto& [name, node] : nodes.items()) {
    tables.push_back(build_table(name, node, uses));
  }
  return tables;
}

NonFiniteRecipe build_non_finite(const json& node) {
  const json& policy = node["policy"];
  return {.policy = policy == "skip"   ? NonFinitePolicy::kSkip
                    : policy == "stop" ? NonFinitePolicy::kStop
                                       : NonFinitePolicy::kIgnore,
          .max_in_a_row = node["max_in_a_row"].get<std::int64_t>()};
}

TrainRecipe build_train(const json& train) {
  const auto count = [&train](const char* key) { return optional_at<std::int64_t>(train, key); };
  return {
      .steps = count("steps"),
      .epochs = count("epochs"),
      .windows = count("windows"),
      .tokens = count("tokens"),
      .minutes = optional_at<double>(train, "minutes"),
      .steps_per_window = count("steps_per_window"),
      .total_steps = count("total_steps"),
      .global_batch_size = count("global_batch_size"),
      .gradient_accumulation = count("gradient_accumulation").value_or(1),
      .normalize = train["normalize"] == "items" ? Normalize::kItems : Normalize::kMicrobatch,
      .loss_tile = count("loss_tile"),
      .clip_grad_norm = optional_at<double>(train, "clip_grad_norm"),
      .clip_grad_value = optional_at<double>(train, "clip_grad_value"),
      .precision = train["precision"].get<std::string>(),
      .non_finite = build_non_finite(train["non_finite"]),
      .recompute = train["recompute"] == "blocks" ? Recompute::kBlocks : Recompute::kNone,
      .log_every = train["log_every"].get<std::int64_t>(),
      .overfit_batch = train["overfit_batch"].get<bool>(),
      .exit_at_step = count("exit_at_step"),
      .exit_after_steps = count("exit_after_steps"),
      .kill_switch = optional_at<std::string>(train, "kill_switch").value_or(""),
  };
}

std::optional<KeepBestRecipe> build_keep_best(const json& node) {
  if (node.is_null()) {
    return std::nullopt;
  }
  return KeepBestRecipe{.metric = node["metric"].get<std::string>(),
                        .is_max = node["mode"] == "max"};
}

EvalRecipe build_eval(const json& eval) {
  const json& with_window = eval["with_window"];
  return {.every_steps = eval["every_steps"].get<std::int64_t>(),
          .every_windows = eval["every_windows"].get<std::int64_t>(),
          .every_epochs = eval["every_epochs"].get<std::int64_t>(),
          .at_start = eval["at_start"].get<bool>(),
          .at_end = eval["at_end"].get<bool>(),
          .batches = optional_at<std::int64_t>(eval, "batches"),
          .next_window = eval["next_window"].get<bool>(),
          .with_window = with_window.is_null()     ? WithWindow::kNever
                         : with_window == "before" ? WithWindow::kBefore
                                                   : WithWindow::kAfter,
          .keep_best = build_keep_best(eval["keep_best"])};
}

std::optional<CheckpointRecipe> build_checkpoint(const json& node, const Uses& uses) {
  if (node.is_null()) {
    return std::nullopt;
  }
  CheckpointRecipe checkpoint{
      .every_steps = node["every_steps"].get<std::int64_t>(),
      .every_windows = node["every_windows"].get<std::int64_t>(),
      .every_epochs = node["every_epochs"].get<std::int64_t>(),
      .every_minutes = optional_at<double>(node, "every_minutes"),
      .at_start = node["at_start"].get<bool>(),
      .at_end = node["at_end"].get<bool>(),
      .on_signal = node["on_signal"].get<bool>(),
      .grace_seconds = node["grace_seconds"].get<double>(),
      .staging =
          node["staging"] == "stream" ? CheckpointStaging::kStream : CheckpointStaging::kCopy,
      .retries = node["retries"].get<std::int64_t>(),
      .on_failure = node["on_failure"] == "stop" ? OnSaveFailure::kStop : OnSaveFailure::kContinue,
      .keep_last = node["keep_last"].get<std::int64_t>(),
      .keep_every_steps = node["keep_every_steps"].get<std::int64_t>(),
      .keep_best = std::nullopt,
      .on_spike = node["on_spike"] == "roll_back" ? OnSpike::kRollBack : OnSpike::kGoOn,
      .max_roll_backs = node["max_roll_backs"].get<std::int64_t>(),
      .exclude = node["exclude"].get<std::vector<std::string>>(),
      .exports = {},
      .storage = std::nullopt};
  for (const json& one : node["exports"]) {
    checkpoint.exports.push_back(
        {.format = one["format"] == "hf" ? ExportFormat::kHf : ExportFormat::kWeights,
         .every_steps = one["every_steps"].get<std::int64_t>(),
         .every_windows = one["every_windows"].get<std::int64_t>(),
         .every_epochs = one["every_epochs"].get<std::int64_t>(),
         .at_end = one["at_end"].get<bool>(),
         .keep_last = one["keep_last"].get<std::int64_t>()});
  }
  if (const json& best = node["keep_best"]; !best.is_null()) {
    checkpoint.keep_best = KeepBestCheckpoints{.metric = best["metric"].get<std::string>(),
                                               .is_max = best["mode"] == "max",
                                               .count = best["count"].get<std::int64_t>()};
  }
  if (!node["storage"].is_null()) {
    checkpoint.storage = uses.at("/checkpoint/storage");
  }
  return checkpoint;
}

LoadSource build_source(const json& node, const std::string& pointer, const Uses& uses) {
  if (node.is_string()) {
    return {.path = node.get<std::string>(), .storage = std::nullopt};
  }
  return {.path = node["path"].get<std::string>(), .storage = uses.at(pointer + "/storage")};
}

LoadRecipe build_load(const json& node, const std::string& pointer, const Uses& uses) {
  const json& parts = node["parts"];
  const auto has = [&parts](const char* part) {
    return std::ranges::find(parts, part) != parts.end();
  };
  const json& layout = node["layout"];
  LoadRecipe load{.pointer = pointer,
                  .from = {},
                  .has_parameters = has("parameters"),
                  .has_tables = has("tables"),
                  .has_optimizer = has("optimizer"),
                  .has_data = has("data"),
                  .match = node["match"].get<std::vector<std::string>>(),
                  .exclude = node["exclude"].get<std::vector<std::string>>(),
                  .rename = {},
                  .is_strict = node["strict"].get<bool>(),
                  .layout = layout.is_null()  ? LoadLayout::kAuto
                            : layout == "own" ? LoadLayout::kOwn
                                              : LoadLayout::kHf,
                  .every_steps = node["every_steps"].get<std::int64_t>(),
                  .every_windows = node["every_windows"].get<std::int64_t>(),
                  .every_epochs = node["every_epochs"].get<std::int64_t>()};
  const json& from = node["from"];
  const std::string at = pointer + "/from";
  if (!from.is_array()) {
    load.from.push_back(build_source(from, at, uses));
  }
  for (std::size_t i = 0; from.is_array() && i < from.size(); ++i) {
    load.from.push_back(build_source(from[i], join_pointer(at, i), uses));
  }
  for (const json& rename : node["rename"]) {
    load.rename.push_back(
        {.from = rename["from"].get<std::string>(), .to = rename["to"].get<std::string>()});
  }
  return load;
}

std::vector<LoadRecipe> build_loads(const json& nodes, const Uses& uses) {
  std::vector<LoadRecipe> loads;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    loads.push_back(build_load(nodes[i], join_pointer("/load", i), uses));
  }
  return loads;
}

ParallelRecipe build_parallel(const json& parallel) {
  return {.replicate = parallel["replicate"].get<std::int64_t>(),
          .shard = parallel["shard"].get<std::int64_t>(),
          .stage = parallel["stage"].get<int>(),
          .reshard_after_forward = optional_at<bool>(parallel, "reshard_after_forward"),
          .unsharded = parallel["unsharded"].get<std::vector<std::string>>(),
          .bucket_bytes = parallel["bucket_bytes"].get<std::int64_t>(),
          .gradient_dtype =
              parallel["gradient_dtype"] == "bf16" ? GradientDtype::kBf16 : GradientDtype::kStored,
          .offload = parallel["offload"].get<bool>(),
          .start_timeout_seconds = parallel["start_timeout_seconds"].get<double>(),
          .timeout_seconds = parallel["timeout_seconds"].get<double>(),
          .interface = optional_at<std::string>(parallel, "interface").value_or(""),
          .check_collectives = parallel["check_collectives"].get<bool>(),
          .share_memory = parallel["share_memory"].get<bool>(),
          .check_replicas_every = parallel["check_replicas_every"].get<std::int64_t>()};
}

}  // namespace

Recipe build_recipe(json root, const RecipeParts& parts) {
  complete(root, parts);
  const Uses& uses = parts.uses;
  const auto list = [&uses](const json& nodes, const std::string& pointer) {
    std::vector<ComponentUse> components;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      components.push_back(uses.at(join_pointer(pointer, i)));
    }
    return components;
  };
  Recipe recipe{
      .name = root["name"].get<std::string>(),
      .seed = root["seed"].get<std::uint64_t>(),
      .deterministic = root["deterministic"].get<bool>(),
      .device = root["device"].get<std::string>(),
      .compute_threads = root["threads"]["compute"].get<int>(),
      .needs = {},
      .plugin_timeout_seconds = optional_at<double>(root["plugins"], "timeout_seconds"),
      .model = build_model(root, uses),
      .data = build_data(root, uses),
      .features = build_features(root, uses),
      .losses = build_losses(root, uses),
      .metrics = build_metrics(root, uses),
      .tables = build_tables(root["tables"], uses),
      .optimizer = {.use = uses.at("/optimizer"), .groups = {}},
      .lr_scheduler = std::nullopt,
      .hooks = list(root["hooks"], "/hooks"),
      .train = build_train(root["train"]),
      .eval = build_eval(root["eval"]),
      .checkpoint = build_checkpoint(root["checkpoint"], uses),
      .load = build_loads(root["load"], uses),
      .parallel = build_parallel(root["parallel"]),
      .sinks = list(root["sinks"], "/sinks"),
      .file = parts.path,
      .frozen = print_recipe(long_form(root, parts)),
  };
  for (std::size_t i = 0; i < parts.groups.size(); ++i) {
    recipe.optimizer.groups.push_back(
        {.match = root["optimizer"]["groups"][i]["match"].get<std::string>(),
         .use = parts.groups[i].use});
  }
  if (!root["lr_scheduler"].is_null()) {
    recipe.lr_scheduler = uses.at("/lr_scheduler");
  }
  return recipe;
}

}  // namespace tenon
