// SPDX-License-Identifier: Apache-2.0
//
// The plugins of a run and the components that they offer. Created once, from the plugin folders. A
// plugin is loaded when one of its components is first requested.
// Threads: all on the main thread. Construct it before the process starts another thread
// (PluginVetter).

#pragma once

#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/plugin_info.hpp"
#include "host/plugin/plugin_scan.hpp"
#include "host/trust/trust.hpp"

#include <chrono>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tenon {

enum class Vetting {
  kEarly,     // all plugins, when the registry is created: for a run
  kOnDemand,  // plugins when requested: for listing and describing
  kNone,      // none, for debuggers: a crash while loading ends the process
};

struct PluginSetup {
  std::vector<PluginFolder> folders = {};
  std::string unsearched_folder = {};  // the default, if named folders replace it; for messages
  // Services that plugins may request. add_plugin_services() (plugin_services.hpp) adds those of
  // this folder.
  ServiceTable services = {};
  Vetting vetting = Vetting::kEarly;
  std::chrono::milliseconds vet_timeout = vet_timeout_from_environment();
  std::string vet_cache_file = default_vet_cache_file();  // "": no cache
  bool ignores_vet_cache = false;  // vets all plugins again, and replaces their cached verdicts
  std::string notice_file = default_notice_file();  // "": logs each notice at every start
  ScanRules rules = {};
};

// The results of PluginRegistry::find.
struct FoundComponent {
  const LoadedComponent* component;
};
struct UnknownComponent {
  std::vector<std::string> offered;  // all names of the kind, for "did you mean"
};
struct AmbiguousComponent {
  std::vector<const PluginInfo*> offered_by;  // more than one
};
struct RefusedComponent {
  const PluginInfo* plugin;  // the first plugin that offers it; has a refusal
};
using FindResult =
    std::variant<FoundComponent, UnknownComponent, AmbiguousComponent, RefusedComponent>;

class PluginRegistry {
 public:
  // Scans the folders, and vets the plugins as configured.
  //
  // Errors   plugin.dir_unreadable, usage.bad_option, run.out_of_resources
  explicit PluginRegistry(PluginSetup setup);
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;
  ~PluginRegistry();

  // Logs a warning for each refused plugin, and once for each file that is no plugin or that other
  // users can change. Skips plugins whose reason is part of `told`, the text of an error that is
  // reported separately.
  void warn_of_refused(std::string_view told = {}) const;

  // Finds a component by kind and name, and loads its plugin. The name is a type or
  // "plugin-id/type". Refused plugins do not make a name ambiguous.
  //
  // Errors   those of load_plugin (plugin_loader.hpp), unlikely after vetting;
  //          plugin.components_differ if a loaded plugin lacks the component
  FindResult find(std::string_view kind, std::string_view name);

  // Like find, but throws if the component cannot be used.
  //
  // Errors   as find; the refusal of the plugin; recipe.unknown_type, recipe.ambiguous_type
  const LoadedComponent& get(std::string_view kind, std::string_view name);

  // Returns the names of all usable components of a kind, sorted: types, or "plugin-id/type" if
  // several plugins offer the type.
  std::vector<std::string> types_of(std::string_view kind) const;

  // All plugins, including refused plugins and copies, folder by folder, sorted by name.
  std::span<const PluginInfo> plugins() const noexcept { return plugins_; }
  // Returns the usable plugin with this id, else a refused plugin with this id, else null.
  const PluginInfo* find_plugin(std::string_view id) const noexcept;

  std::span<const PluginFolder> folders() const noexcept { return setup_.folders; }
  // For messages: "build/plugins (--plugin-dir)", or "no plugin folder".
  std::string describe_folders() const;
  // For messages about a missing component: " (build/plugins/a.so is not a plugin: it is not a
  // shared library)", with at most three files; "" if each *.so file of the folders is a plugin.
  std::string describe_not_plugins() const;

 private:
  void vet(const std::vector<PluginInfo*>& plugins);
  void refuse(PluginInfo& plugin, const Verdict& verdict);
  std::vector<PluginInfo*> offering(std::string_view kind, std::string_view name);

  PluginSetup setup_;
  ScanRemarks remarks_;
  std::vector<PluginInfo> plugins_;
  std::set<const PluginInfo*> vetted_;
  PluginVetter vetter_;
};

}  // namespace tenon
