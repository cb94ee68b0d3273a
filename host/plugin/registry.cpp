// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/registry.hpp"

#include <tenon/abi.h>

#include "host/log/log.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/plugin_trial.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tenon {
namespace {

// True if the plugin offers the component. "org.tenon.text/text" means the type "text" of that
// plugin; "text" means the type of any plugin.
bool is_named(const PluginInfo& plugin, std::string_view kind, std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) {
    return plugin.offers({std::string(kind), std::string(name)});
  }
  return plugin.manifest.id == name.substr(0, slash) &&
         plugin.offers({std::string(kind), std::string(name.substr(slash + 1))});
}

}  // namespace

PluginRegistry::PluginRegistry(PluginSetup setup)
    : setup_(std::move(setup)),
      plugins_(scan_plugins(setup_.folders, setup_.rules, &remarks_)),
      vetter_({.cache_file = setup_.vet_cache_file,
               .depends_on =
                   std::string("abi " TENON_ABI_STRING " torch ") + setup_.rules.torch_fingerprint,
               .ignores_cache = setup_.ignores_vet_cache,
               .timeout = setup_.vet_timeout}) {
  if (setup_.vetting == Vetting::kEarly) {
    std::vector<PluginInfo*> all;
    for (PluginInfo& plugin : plugins_) {
      all.push_back(&plugin);
    }
    vet(all);
  }
}

PluginRegistry::~PluginRegistry() = default;

void PluginRegistry::vet(const std::vector<PluginInfo*>& plugins) {
  std::vector<PluginInfo*> asked;
  for (PluginInfo* const plugin : plugins) {
    if (plugin->is_usable() && vetted_.insert(plugin).second) {
      asked.push_back(plugin);
    }
  }
  const std::vector<const PluginInfo*> subjects(asked.begin(), asked.end());
  const std::vector<Verdict> verdicts =
      vetter_.vet(vet_subjects(subjects), trial_of(subjects, setup_.services));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    refuse(*asked[i], verdicts[i]);
  }
}

void PluginRegistry::warn_of_refused(std::string_view told) const {
  Notices notices(setup_.notice_file);
  for (const Notice& notice : remarks_.notices) {
    if (notices.is_new(notice)) {
      log_warning(notice.text);
    }
  }
  std::set<std::string> reasons;  // files with the same id share a reason
  for (const PluginInfo& plugin : plugins_) {
    const bool is_due =
        plugin.refusal && (!plugin.is_named_once || notices.is_new({.path = plugin.file,
                                                                    .text = plugin.refusal->what(),
                                                                    .stamp = plugin.stamp}));
    if (is_due && told.find(plugin.refusal->message()) == std::string_view::npos &&
        reasons.insert(plugin.refusal->what()).second) {
      log_warning(plugin.refusal->what());
      if (!plugin.details.empty()) {
        log_debug(plugin.file + " printed:\n" + plugin.details);
      }
    }
  }
  notices.save();
}

void PluginRegistry::refuse(PluginInfo& plugin, const Verdict& verdict) {
  plugin.details = verdict.details;
  for (const std::string& frame : verdict.backtrace) {
    plugin.details += (plugin.details.empty() ? "  " : "\n  ") + frame;
  }
  if (!verdict.hash.empty()) {
    plugin.hash = verdict.hash;
  }
  if (!verdict.is_good()) {
    plugin.refusal = Error(verdict.id, verdict.message);
  }
}

std::vector<PluginInfo*> PluginRegistry::offering(std::string_view kind, std::string_view name) {
  std::vector<PluginInfo*> plugins;
  for (PluginInfo& plugin : plugins_) {
    if (plugin.same_as.empty() && is_named(plugin, kind, name)) {
      plugins.push_back(&plugin);
    }
  }
  return plugins;
}

FindResult PluginRegistry::find(std::string_view kind, std::string_view name) {
  const std::vector<PluginInfo*> all = offering(kind, name);
  if (all.empty()) {
    return UnknownComponent{types_of(kind)};
  }
  if (setup_.vetting == Vetting::kOnDemand) {
    vet(all);
  }
  std::vector<const PluginInfo*> usable;
  std::ranges::copy_if(all, std::back_inserter(usable), &PluginInfo::is_usable);
  if (usable.empty()) {
    return RefusedComponent{all.front()};
  }
  if (usable.size() > 1) {
    return AmbiguousComponent{std::move(usable)};
  }
  const LoadedPlugin& plugin = load_plugin(*usable.front(), setup_.services);
  const std::string_view type = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  for (const LoadedComponent& component : plugin.components) {
    if (component.kind == kind && component.type == type) {
      return FoundComponent{&component};
    }
  }
  // An earlier registry of this process loaded the file, and the file was replaced since.
  throw Error("plugin.components_differ",
              usable.front()->describe() + " was loaded earlier, without " + std::string(kind) +
                  ":" + std::string(type) + "; start the run again");
}

const LoadedComponent& PluginRegistry::get(std::string_view kind, std::string_view name) {
  const std::string text = std::string(kind) + " \"" + std::string(name) + "\"";
  FindResult result = find(kind, name);
  if (const auto* const refused = std::get_if<RefusedComponent>(&result)) {
    throw *refused->plugin->refusal;
  }
  if (const auto* const ambiguous = std::get_if<AmbiguousComponent>(&result)) {
    std::string list;
    for (const PluginInfo* const plugin : ambiguous->offered_by) {
      list += (list.empty() ? "" : ", ") + plugin->describe();
    }
    throw Error(
        "recipe.ambiguous_type",
        text + " is offered by several plugins: " + list + "; name one as \"plugin-id/type\"");
  }
  if (std::holds_alternative<UnknownComponent>(result)) {
    throw Error("recipe.unknown_type",
                "no plugin in " + describe_folders() + " offers " + text + describe_not_plugins());
  }
  return *std::get<FoundComponent>(result).component;
}

std::vector<std::string> PluginRegistry::types_of(std::string_view kind) const {
  std::map<std::string, std::vector<const PluginInfo*>> by_type;
  for (const PluginInfo& plugin : plugins_) {
    for (const ComponentName& component : plugin.manifest.components) {
      if (plugin.is_usable() && component.kind == kind) {
        by_type[component.type].push_back(&plugin);
      }
    }
  }
  std::vector<std::string> names;
  for (const auto& [type, plugins] : by_type) {
    for (const PluginInfo* const plugin : plugins) {
      names.push_back(plugins.size() == 1 ? type : plugin->manifest.id + "/" + type);
    }
  }
  std::ranges::sort(names);
  return names;
}

const PluginInfo* PluginRegistry::find_plugin(std::string_view id) const noexcept {
  const PluginInfo* found = nullptr;
  for (const PluginInfo& plugin : plugins_) {
    if (plugin.manifest.id == id && plugin.same_as.empty() &&
        (found == nullptr || (!found->is_usable() && plugin.is_usable()))) {
      found = &plugin;
    }
  }
  return found;
}

std::string PluginRegistry::describe_folders() const {
  std::string text;
  for (const PluginFolder& folder : setup_.folders) {
    text += (text.empty() ? "" : ", ") + folder.path + " (" + folder.origin + ")";
  }
  if (!setup_.unsearched_folder.empty()) {
    text += "; not in the default folder " + setup_.unsearched_folder +
            ", which named folders replace: add --plugin-dir " + setup_.unsearched_folder;
  }
  return text.empty() ? "no plugin folder" : text;
}

std::string PluginRegistry::describe_not_plugins() const {
  constexpr std::size_t kMaxFiles = 3;
  std::string text;
  for (std::size_t i = 0; i < remarks_.not_plugins.size() && i < kMaxFiles; ++i) {
    text += (i == 0 ? " (" : "; ") + remarks_.not_plugins[i];
  }
  if (remarks_.not_plugins.size() > kMaxFiles) {
    text += formatted("; {} more", remarks_.not_plugins.size() - kMaxFiles);
  }
  return text.empty() ? text : text + ")";
}

}  // namespace tenon
