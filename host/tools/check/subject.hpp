// SPDX-License-Identifier: Apache-2.0
//
// The plugin that is being checked, as its checks see it: its file, its components with options to
// create them with, and the place of the call that is being made.
// Invariant: nothing of the plugin runs before plugin() is called.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/plugin/instance.hpp"
#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/plugin_info.hpp"
#include "host/plugin/plugin_scan.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tools/check/check.hpp"
#include "host/tools/check/findings.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/trust/child/watched_child.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// What to check, and with what.
struct CheckRequest {
  std::string file;
  std::string recipe = {};  // a recipe that uses the plugin; "" for none
  uint64_t seed = 0;
  std::vector<PluginFolder> folders = {};  // of the recipe's other plugins
  ServiceTable services = {};
  std::filesystem::path program = {};  // the host, for the checks of a recipe
  // Where checks leave runs of the recipe for other checks; run_checks() sets it.
  std::filesystem::path runs_folder = {};
  std::chrono::milliseconds load_limit = std::chrono::seconds(10);
  // Reads the recipe and checks it against the registry's plugins. Set if `recipe` is.
  std::function<Recipe(PluginRegistry& registry)> load_recipe = nullptr;
};

// A component of the plugin, with options that create it.
struct CheckedComponent {
  const LoadedComponent* component = nullptr;
  std::string options = "{}";
  const ComponentUse* use = nullptr;  // of the recipe; null without one
  std::string problem = {};           // why the options are not enough to create it; "" if they are

  // `loss "mse"`.
  std::string name() const { return component->kind + " \"" + component->type + "\""; }
};

class Subject {
 public:
  // `note` is where the parent looks for the call that was made; null in the parent itself.
  Subject(const CheckRequest& request, const PluginInfo& info, ChildNote* note)
      : request_(request), info_(info), note_(note) {}

  const CheckRequest& request() const { return request_; }
  const PluginInfo& info() const { return info_; }

  // Says what is called next: "create of loss \"mse\"".
  void note(std::string_view call);

  // Loads the plugin, once.
  //
  // Errors   those of load_plugin()
  const LoadedPlugin& plugin();

  // Returns the components, with the options of each use in the recipe, or else the defaults.
  const std::vector<CheckedComponent>& components();

  // Errors   PluginError of `create`
  ComponentInstance create(const CheckedComponent& checked);

  // Calls `body` for an instance of each component of a kind ("": of any). What `body` throws as an
  // Error is a problem of the component. Skips components that cannot be created. `none` is the
  // reason to skip the check if nothing was examined; "" says that the plugin has no such kind.
  using Body =
      std::function<void(const CheckedComponent& checked, ComponentInstance instance, Findings&)>;
  CheckResult for_each_instance(std::string_view kind,
                                const Body& body,
                                const std::string& none = "");

  // Runs `body` in another child process, which may crash or hang. Returns null if it did neither;
  // `body` returns "" or a problem.
  using Trial = std::function<std::string(Subject& subject)>;
  std::optional<CheckResult> try_apart(const Trial& trial, std::chrono::milliseconds limit);

  // A generator of random inputs that depends on the seed alone.
  std::mt19937_64 generator() const { return std::mt19937_64(request_.seed); }

  // The recipe, if one is given.
  //
  // Errors   of the recipe
  const Recipe& recipe();
  ComponentFactory& factory();

 private:
  struct RecipeParts;

  const CheckRequest& request_;
  const PluginInfo& info_;
  ChildNote* note_;
  const LoadedPlugin* plugin_ = nullptr;
  std::shared_ptr<RecipeParts> recipe_;  // shared_ptr: the type is not complete here
  std::optional<std::vector<CheckedComponent>> components_;
  int num_created_ = 0;
};

// The surroundings of calls in a run of one rank on the CPU.
ExecBase check_exec_base(const CheckRequest& request, at::ScalarType compute_dtype = at::kFloat);

// What happened to a child process that did not answer: a crash, an exit or a hang.
CheckResult result_of_death(const WatchedChild& child,
                            const PluginInfo& info,
                            std::chrono::milliseconds limit);

}  // namespace tenon
