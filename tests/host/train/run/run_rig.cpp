// SPDX-License-Identifier: Apache-2.0
#include "tests/host/train/run/run_rig.hpp"

#include "host/cli/checked_recipe.hpp"
#include "host/cli/service_table.hpp"
#include "host/log/log.hpp"
#include "host/recipe/recipe_loader.hpp"

#include <nlohmann/json.hpp>

#include <utility>

#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

std::string recipe_text(const std::string& patch) {
  auto recipe = nlohmann::json::parse(R"({
    "name": "rig", "threads": {"compute": 1},
    "model": {"type": "mlp", "options": {"in_features": 4, "hidden": [8], "out_features": 3}},
    "data": {"batch_size": 4, "train": {"type": "windows", "options": {"samples": 24}}},
    "loss": {"type": "cross_entropy"},
    "optimizer": {"type": "sgd", "options": {"lr": 0.1}},
    "train": {"steps": 6, "log_every": 1}})");
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

PluginSetup plugin_setup() {
  return {.folders = {{plugin_dir().string(), "test"}, {test_plugin_dir().string(), "test"}},
          .services = make_service_table(),
          .vet_cache_file = ""};
}

RunRequest in_folder(RunRequest request, const std::filesystem::path& run_dir) {
  if (request.run_dir.empty()) {
    request.run_dir = run_dir.string();
  }
  request.style = Progress::Style::kQuiet;
  return request;
}

}  // namespace

std::shared_ptr<Process> test_process() {
  static std::weak_ptr<Process> shared;
  std::shared_ptr<Process> process = shared.lock();
  if (process == nullptr) {
    process = std::make_shared<Process>();
    shared = process;
  }
  return process;
}

RunRig::RunRig(const std::string& patch, RunRequest request, const std::vector<std::string>& sets)
    : registry_(plugin_setup()),
      recipe_(check_recipe(
          read_recipe(
              {.path = folder_.write("recipe.json", recipe_text(patch)).string(), .sets = sets}),
          registry_)),
      request_(in_folder(std::move(request), run_dir())),
      platform_(recipe_, *process_, request_, RunPlatform::Purpose::kTrain),
      world_(World::join(request_.ranks, {})),
      ranks_(*world_, platform_.role()),
      factory_(registry_, recipe_, platform_.mesh_view()),
      context_{recipe_, request_, platform_, *world_, ranks_, factory_} {
  platform_.set_up_process(recipe_);
  set_up_log({.terminal = false, .file = (folder_.path() / "rig.log").string()});
}

RunRig::~RunRig() {
  set_up_log({});
}

std::string RunRig::log() const {
  flush_log();
  return file_text(folder_.path() / "rig.log");
}

}  // namespace tenon
