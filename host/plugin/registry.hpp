// SPDX-License-Identifier: Apache-2.0
//
// The plugins of a run: which there are, which may be used, and who offers what. Made once, from
// the plugin folders; a plugin is loaded when the first of its components is asked for. Threads:
// all on the main thread, and made before the process starts another (vet.hpp).

#pragma once

#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/plugin_info.hpp"
#include "host/plugin/plugin_scan.hpp"
#include "host/plugin/vet.hpp"
#include "host/plugin/vet_cache.hpp"

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
  kEarly,     // all that are found, when the registry is made: for a run
  kOnDemand,  // those that are asked for: for listing and describing
  kNone,      // none: a crash while loading takes the process with it. For debuggers
};

struct PluginSetup {
  std::vector<PluginFolder> folders = {};
  // What plugins may ask the host for. add_plugin_services() (plugin_services.hpp) adds those of
  // this folder.
  ServiceTable services = {};
  Vetting vetting = Vetting::kEarly;
  std::chrono::milliseconds vet_timeout = vet_timeout_from_environment();
  std::string vet_cache_file = default_vet_cache_file();  // "": vets again each time
  std::string torch_fingerprint = host_torch_fingerprint();
};

// The answers of PluginRegistry::find.
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
  const PluginInfo* plugin;  // the one that offers it, alone or first; it has a refusal
};
using FindResult =
    std::variant<FoundComponent, UnknownComponent, AmbiguousComponent, RefusedComponent>;

class PluginRegistry {
 public:
  // Scans, and vets.
  //
  // Errors   plugin.dir_unreadable, usage.bad_option
  explicit PluginRegistry(PluginSetup setup);
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;
  ~PluginRegistry();

  // Logs a warning line for each plugin that is refused, except those whose reason stands in
  // `told`: the text of an error that is reported anyway.
  void warn_of_refused(std::string_view told = {}) const;

  // Finds a component by kind and name, a name being a type or "plugin-id/type", and loads its
  // plugin. Plugins that are refused do not make a name ambiguous.
  //
  // Errors   those of load_plugin (plugin_loader.hpp), which vetting has made unlikely
  FindResult find(std::string_view kind, std::string_view name);

  // As find, for a component that must be there.
  //
  // Errors   as find; the refusal of a plugin; recipe.unknown_type, recipe.ambiguous_type
  const LoadedComponent& get(std::string_view kind, std::string_view name);

  // The names under which components of a kind can be found, sorted: types, and "plugin-id/type"
  // where several plugins offer one.
  std::vector<std::string> types_of(std::string_view kind) const;

  // All plugins, refused ones and copies too, folder by folder, by name.
  std::span<const PluginInfo> plugins() const noexcept { return plugins_; }
  // The one with this id that is used, or else one that is refused, or null.
  const PluginInfo* find_plugin(std::string_view id) const noexcept;

  std::span<const PluginFolder> folders() const noexcept { return setup_.folders; }
  // "build/plugins (--plugin-dir)", or "no plugin folder", for messages.
  std::string describe_folders() const;

 private:
  void vet(const std::vector<PluginInfo*>& plugins);
  void refuse(PluginInfo& plugin, const Verdict& verdict);
  std::vector<PluginInfo*> offering(std::string_view kind, std::string_view name);

  PluginSetup setup_;
  std::vector<PluginInfo> plugins_;
  std::set<const PluginInfo*> vetted_;
  std::unique_ptr<VetCache> cache_;
};

}  // namespace tenon
