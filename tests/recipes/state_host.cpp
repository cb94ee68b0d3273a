// SPDX-License-Identifier: Apache-2.0
//
// A host that runs a recipe again from its own states: once through, with the state taken wherever
// the run is at rest; then afresh from some of these states, in this process, holding every later
// state against the one of the first run. It says what it found as JSON, and judges nothing.
//
//   state_host RECIPE PLUGIN_DIR PLUGIN_DIR OUT STARTS [PORTS]
//
// STARTS is "all" or numbers of rests, "0,3,9", or "foreign": then the states are spoilt first.
// PORTS has one for each run, where there are ranks.
#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/cli/checked_recipe.hpp"
#include "host/cli/service_table.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/run/run_training.hpp"
#include "host/train/trainer.hpp"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

struct Rest {
  RunBoundary point;
  uint64_t step = 0;
  StateTree tree;
};

const char* name_of(RunBoundary point) {
  return point == RunBoundary::kStep ? "step" : point == RunBoundary::kWindow ? "window" : "epoch";
}

// Without the lines of figures that depend on the clock, or on how memory has grown.
std::string without_time(const std::string& lines) {
  std::istringstream stream(lines);
  std::string kept;
  for (std::string line; std::getline(stream, line);) {
    const bool is_time = line.find("per_second") != std::string::npos ||
                         line.find("step_seconds") != std::string::npos ||
                         line.find("data_wait_seconds") != std::string::npos ||
                         line.find("/bytes") != std::string::npos;  // of memory, not of rows
    kept += is_time ? "" : line + "\n";
  }
  return kept;
}

StateTree only(const std::string& name, const StateEntry* entry) {
  StateTree tree;
  if (entry != nullptr) {
    StateEntry copy = *entry;
    if (name == "figures/figures") {
      copy.value = without_time(std::get<std::string>(copy.value));
    }
    tree.put_entry(name, copy);
  }
  return tree;
}

// The names of entries that two states do not share, to the bit, but for the time that has passed.
std::vector<std::string> differences(const StateTree& a, const StateTree& b) {
  std::vector<std::string> names;
  const auto compare = [&](const StateTree& left, const StateTree& right, bool is_first) {
    for (const auto& [name, entry] : left.entries()) {
      if (name == "run/seconds") {
        continue;
      }
      const StateEntry* const other = right.find(name);
      if (is_first ? !(only(name, &entry) == only(name, other)) : other == nullptr) {
        names.push_back(name);
      }
    }
  };
  compare(a, b, true);
  compare(b, a, false);
  if (a.versions() != b.versions()) {
    names.emplace_back("(versions)");
  }
  return names;
}

// The tree, with another tensor in place of each entry below `prefix`, or without these entries.
StateTree changed(const StateTree& tree,
                  const std::string& prefix,
                  const std::optional<at::Tensor>& tensor) {
  StateTree result;
  for (const auto& [name, entry] : tree.entries()) {
    if (!name.starts_with(prefix)) {
      result.put_entry(name, entry);
    } else if (tensor.has_value()) {
      result.put_tensor(name, *tensor, StateTree::Copy::kNo);
    }
  }
  for (const auto& [name, version] : tree.versions()) {
    if (tensor.has_value() || !name.starts_with(prefix)) {
      result.set_version(name, version);
    }
  }
  return result;
}

std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> result;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    result.push_back(std::stoll(part));
  }
  return result;
}

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%a", value);
  return text;
}

// What is read of a checkpoint that the tree was written to.
StateTree through_files(const StateTree& tree, const std::string& root, const std::string& name) {
  const auto storage = std::make_shared<LocalStorage>(root);
  storage->open(name, /*is_first=*/true);
  std::vector<RankShare> shares;
  shares.push_back(write_share(tree, {}, *storage, name, false));
  for (const auto& [file, content] : index_files(merged({}, std::move(shares)), "{}\n")) {
    write_file(file, content, *storage, name);
  }
  storage->commit(name);
  return CheckpointReader(storage, name).state(0, 1, nullptr);
}

json metrics_of(const Outcome& outcome) {
  json metrics = json::object();
  for (const auto& [name, value] : outcome.last_metrics) {
    if (name.ends_with("/bytes")) {
      continue;
    }
    metrics[name] = exact(value);
  }
  return metrics;
}

int run(const std::vector<std::string>& words, Process& process) {
  RankEnvironment ranks = read_rank_environment(environment_variables());
  find_secret(ranks, environment_variables());
  set_up_log({});
  RecipeDraft draft = read_recipe({.path = words[1], .sets = {}});
  PluginRegistry registry({.folders = {{words[2], "test"}, {words[3], "test"}},
                           .services = make_service_table(),
                           .vet_cache_file = ""});
  const Recipe recipe = check_recipe(std::move(draft), registry);
  std::vector<int64_t> ports = words.size() > 6 ? numbers(words[6]) : std::vector<int64_t>();
  size_t num_runs = 0;
  const auto run_from = [&](const StateTree* start, std::vector<Rest>& rests) {
    if (num_runs < ports.size()) {
      ranks.master_port = static_cast<uint16_t>(ports[num_runs]);
    }
    RunRequest request;
    request.run_dir = words[4] + "/run-" + std::to_string(num_runs++);
    request.style = Progress::Style::kQuiet;
    request.ranks = ranks;
    request.start_from = start;
    request.on_boundary = [&rests](RunBoundary point, Trainer& trainer) {
      Rest rest{.point = point, .step = trainer.state().step, .tree = {}};
      trainer.snapshot(rest.tree);
      rests.push_back(std::move(rest));
    };
    return run_training(recipe, registry, process, request);
  };
  std::vector<Rest> all;
  const Outcome whole = run_from(nullptr, all);
  json found = {{"code", static_cast<int>(whole.code)},
                {"reason", whole.reason},
                {"steps", whole.state.step},
                {"rests", all.size()},
                {"hash", whole.parameters_hash},
                {"starts", json::array()}};
  if (words[5] == "foreign") {
    const auto error_of = [&](const StateTree& tree) {
      std::vector<Rest> none;
      const Outcome outcome = run_from(&tree, none);
      return json{{"error_id", outcome.error_id}, {"reason", outcome.reason}};
    };
    const StateTree& sound = all.at(1).tree;
    StateTree newer = sound;
    newer.set_version("", 99);
    found["newer"] = error_of(newer);
    found["larger"] = error_of(changed(sound, "parameters/values/", at::zeros({3, 3})));
    found["without_hooks"] = error_of(changed(sound, "components/hooks/", std::nullopt));
    std::ofstream(words[4] + "/found-0.json") << found.dump(1);
    return 0;
  }
  std::vector<int64_t> starts = words[5] == "all" ? std::vector<int64_t>() : numbers(words[5]);
  for (size_t i = 0; words[5] == "all" && i < all.size(); ++i) {
    starts.push_back(static_cast<int64_t>(i));
  }
  for (const int64_t start : starts) {
    const auto first = static_cast<size_t>(start);
    std::vector<Rest> later;
    const std::string folder = "run-" + std::to_string(num_runs);
    json differing = json::array();
    // One rank's states go by way of files, every other time.
    const bool is_filed = ranks.world_size == 1 && num_runs % 2 == 0;
    StateTree read;
    if (is_filed) {
      read = through_files(all.at(first).tree, words[4] + "/saved", folder);
      for (const std::string& name : differences(all[first].tree, read)) {
        differing.push_back("in its file: " + name);
      }
    }
    const Outcome outcome = run_from(is_filed ? &read : &all.at(first).tree, later);
    for (size_t i = 0; i < later.size() && first + 1 + i < all.size(); ++i) {
      for (const std::string& name : differences(all[first + 1 + i].tree, later[i].tree)) {
        differing.push_back("rest " + std::to_string(first + 1 + i) + ": " + name);
      }
    }
    found["starts"].push_back({{"rest", first},
                               {"point", name_of(all[first].point)},
                               {"step", all[first].step},
                               {"folder", folder},
                               {"rests", first + 1 + later.size()},
                               {"code", static_cast<int>(outcome.code)},
                               {"reason", outcome.reason},
                               {"hash", outcome.parameters_hash},
                               {"has_same_figures", metrics_of(outcome) == metrics_of(whole)},
                               {"differing", differing}});
  }
  std::ofstream(words[4] + "/found-" + std::to_string(ranks.rank) + ".json") << found.dump(1);
  return 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  try {
    tenon::Process process;
    return tenon::run({argv, argv + argc}, process);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
