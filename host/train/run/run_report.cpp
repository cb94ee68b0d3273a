// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_report.hpp"

#include "host/io/content_hash.hpp"
#include "host/metrics/progress.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace tenon {
namespace {

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

// JSON has no NaN or infinity: non-finite metrics are null, as in metrics.jsonl.
nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json to_json(const std::optional<SaveCount>& count) {
  if (!count.has_value()) {
    return nullptr;
  }
  nlohmann::ordered_json lost = nullptr;
  if (count->lost.has_value()) {
    lost = {{"step", count->lost->step}, {"reason", count->lost->why}};
  }
  return {
      {"committed", count->committed},
      {"failed", count->failed},
      {"last",
       count->last.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(count->last)},
      {"lost", lost}};
}

using Json = nlohmann::ordered_json;

Json to_json(const PackedRows& packed) {
  const auto all = static_cast<double>(packed.rows) * static_cast<double>(packed.row_tokens);
  return {{"rows", packed.rows},
          {"row_tokens", packed.row_tokens},
          {"samples", packed.samples},
          {"tokens", packed.tokens},
          {"fill", packed.rows > 0 ? Json(static_cast<double>(packed.tokens) / all) : Json()},
          {"over_long_samples", packed.over_long},
          {"lost_tokens", packed.lost}};
}

Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json to_json(const FlopReport& flops) {
  Json formulas = Json::object();
  for (const FormulaFlops& formula : flops.formulas) {
    if (!formula.why_not.empty()) {
      formulas[formula.id] = {{"why_not", formula.why_not}};
      continue;
    }
    formulas[formula.id] = {{"model_flops", number(formula.model)},
                            {"hardware_flops", number(formula.hardware)},
                            {"mfu", number(flops.utilization(formula.model))},
                            {"hfu", number(flops.utilization(formula.hardware))}};
  }
  return {{"peak_flops", number(flops.peak)},
          {"peak_is_measured", flops.is_peak_measured},
          {"seconds", flops.seconds},
          {"formulas", formulas}};
}

// Writes the progress of the run.
void put_progress(Json& summary, const Outcome& outcome) {
  summary["steps"] = outcome.state.step;
  summary["updates"] = outcome.state.updates;
  summary["epochs"] = outcome.state.epochs;
  summary["windows"] = outcome.state.windows;
  const WindowCount& windows = outcome.windows;
  summary["windows_left_out"] = {
      {"skipped", windows.skipped}, {"repeated", windows.repeated}, {"empty", windows.empty}};
  summary["last_window"] = or_null(windows.last);
  summary["dropped_samples"] = windows.dropped;
  summary["data_left_out"] = windows.left_out;
  summary["samples"] = outcome.state.samples;
  summary["tokens"] = outcome.state.tokens;
  if (outcome.packed.has_value()) {
    summary["packing"] = to_json(*outcome.packed);
  }
  if (outcome.flops.has_value()) {
    summary["flops"] = to_json(*outcome.flops);
  }
  summary["seconds"] = outcome.seconds;
  summary["lost_records"] = outcome.lost_records;
}

// Writes the results: metrics, non-finite updates, the best evaluation.
void put_results(Json& summary, const Outcome& outcome) {
  Json metrics = Json::object();
  for (const auto& [name, value] : outcome.last_metrics) {
    metrics[name] = number(value);
  }
  summary["metrics"] = metrics;
  const NonFiniteCount& count = outcome.non_finite;
  summary["non_finite"] = {{"steps", count.steps},
                           {"longest_row", count.longest_streak},
                           {"last_step", count.steps > 0 ? Json(count.last_step) : nullptr},
                           {"last_origin", count.steps > 0 ? Json(count.last_origin) : nullptr}};
  summary["best"] = nullptr;
  if (outcome.best.has_value()) {
    summary["best"] = {{"step", outcome.best->step},
                       {"metric", outcome.best->metric},
                       {"value", number(outcome.best->value)},
                       {"kept_bytes", outcome.best->bytes}};
  }
}

// Writes the history of saves, loads and rollbacks.
void put_history(Json& summary, const Outcome& outcome) {
  summary["checkpoints"] = to_json(outcome.saves);
  summary["exports"] = to_json(outcome.exports);
  summary["resumed"] = nullptr;
  if (!outcome.resumed_from.empty()) {
    summary["resumed"] = {{"from", outcome.resumed_from}, {"step", outcome.resumed_at}};
  }
  summary["loaded"] = nullptr;
  if (!outcome.loaded_from.empty() || outcome.num_reloads > 0) {
    summary["loaded"] = {{"from", outcome.loaded_from}, {"reloads", outcome.num_reloads}};
  }
  summary["roll_backs"] = Json::array();
  for (const RollBackRecord& back : outcome.roll_backs) {
    summary["roll_backs"].push_back(
        {{"step", back.step}, {"to", back.to}, {"checkpoint", back.checkpoint}, {"why", back.why}});
  }
}

// Writes the environment: versions, device, mesh, traffic, components.
void put_setting(Json& summary, const RunReport& report, const Outcome& outcome) {
  summary["version"] = report.version;
  summary["libtorch"] = report.torch_version;
  summary["device"] = report.device;
  if (!report.device_waits.empty()) {
    summary["device_waits"] = report.device_waits;
  }
  summary["live_handles"] = report.live_handles;
  const Mesh& mesh = report.role.mesh();
  summary["world_size"] = report.role.num_ranks();
  summary["mesh"] = {{"replicate", mesh.size(MeshDim::kReplicate)},
                     {"shard", mesh.size(MeshDim::kShard)},
                     {"tensor", mesh.size(MeshDim::kTensor)},
                     {"context", mesh.size(MeshDim::kContext)}};
  const Traffic& traffic = outcome.traffic;
  summary["sent_bytes"] = {{"all_reduce", traffic.all_reduce},
                           {"all_gather", traffic.all_gather},
                           {"reduce_scatter", traffic.reduce_scatter},
                           {"broadcast", traffic.broadcast},
                           {"all_to_all", traffic.all_to_all},
                           {"send", traffic.send},
                           {"control", traffic.control}};
  summary["peak_tensor_bytes"] = outcome.peak_tensor_bytes;
  summary["command_line"] = report.command_line;
  Json components = Json::array();
  for (const ReportedComponent& component : report.components) {
    components.push_back(
        {{"role", component.role}, {"type", component.type}, {"plugin", component.plugin}});
  }
  summary["components"] = components;
  Json plugins = Json::array();
  for (const ReportedPlugin& plugin : report.plugins) {
    plugins.push_back({{"id", plugin.id},
                       {"version", plugin.version},
                       {"file", plugin.file},
                       {"hash", plugin.hash}});
  }
  summary["plugins"] = plugins;
}

}  // namespace

std::string header_text(const RunReport& report) {
  std::string text = "tenon " + report.version + ", libtorch " + report.torch_version + ", " +
                     report.device + "\n";
  size_t role_width = 10;
  size_t type_width = 14;
  for (const ReportedComponent& component : report.components) {
    role_width = std::max(role_width, component.role.size() + 2);
    type_width = std::max(type_width, component.type.size() + 2);
  }
  text += formatted(
      "{}{}, seed {}\n", padded("recipe", role_width), report.recipe.file, report.recipe.seed);
  if (const uint32_t num_ranks = report.role.num_ranks(); num_ranks > 1) {
    text += formatted(
        "{}{} ranks: {}\n", padded("ranks", role_width), num_ranks, report.role.mesh().text());
  }
  for (const ReportedComponent& component : report.components) {
    text +=
        padded(component.role, role_width) + padded(component.type, type_width) + component.plugin;
    text += component.detail.empty() ? "\n" : ", " + component.detail + "\n";
  }
  text += padded("run", role_width) + report.run_dir;
  return text;
}

std::string last_line(const RunReport& report, const Outcome& outcome) {
  std::string line = outcome.word();
  // The log has written the error to stderr. On one terminal, its text would appear twice.
  const bool is_shown =
      !outcome.error_id.empty() && ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0;
  line += ": " + (is_shown ? "[" + outcome.error_id + "]" : outcome.reason);
  if (outcome.is_already_complete) {
    return line + "; " + report.run_dir;
  }
  line += " in " + duration_text(outcome.seconds);
  std::vector<EvalSetUse> sets = report.recipe.data.eval;
  sets.insert(sets.end(), report.recipe.data.test.begin(), report.recipe.data.test.end());
  for (const EvalSetUse& set : sets) {
    const std::string name = eval_prefix(set) + "loss";
    const auto loss = outcome.last_metrics.find(name);
    if (loss != outcome.last_metrics.end()) {
      char value[32];
      std::snprintf(value, sizeof(value), "%.4f", loss->second);
      line += "; " + name + " " + value;
    }
  }
  if (outcome.code == ExitCode::kStopped && outcome.saves.has_value() &&
      outcome.saves->lost.has_value()) {
    line += formatted("; the checkpoint of step {} is lost", outcome.saves->lost->step);
  }
  if (outcome.lost_records > 0) {
    line += formatted("; {} writes of metrics failed", outcome.lost_records);
  }
  return line + "; " + report.run_dir;
}

std::string summary_json(const RunReport& report, const Outcome& outcome) {
  Json summary;
  summary["name"] = report.recipe.name;
  summary["recipe_hash"] = content_hash_of(frozen_recipe(report.recipe));
  summary["outcome"] = outcome.word();
  summary["exit_code"] = static_cast<int>(outcome.code);
  summary["reason"] = outcome.reason;
  summary["error_id"] = or_null(outcome.error_id);
  put_progress(summary, outcome);
  put_results(summary, outcome);
  put_history(summary, outcome);
  summary["parameters"] = report.num_parameters;
  summary["parameters_hash"] = or_null(outcome.parameters_hash);
  put_setting(summary, report, outcome);
  // Paths of files that the system names, such as the current folder, may have any bytes.
  return summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon
