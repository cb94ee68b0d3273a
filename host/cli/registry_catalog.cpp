// SPDX-License-Identifier: Apache-2.0

#include "host/cli/registry_catalog.hpp"

#include "host/plugin/kinds.hpp"

#include <variant>

namespace tenon {

std::vector<CatalogEntry> RegistryCatalog::find(const std::string& kind,
                                                const std::string& name) const {
  const FindResult result = registry_.find(kind, name);
  if (const auto* const found = std::get_if<FoundComponent>(&result)) {
    const LoadedComponent& component = *found->component;
    const PluginContext& plugin = component.plugin->host.context();
    return {{plugin.id, plugin.file, component.options_schema}};
  }
  if (const auto* const ambiguous = std::get_if<AmbiguousComponent>(&result)) {
    std::vector<CatalogEntry> offers;
    for (const PluginInfo* const plugin : ambiguous->offered_by) {
      offers.push_back({plugin->manifest.id, plugin->file, ""});
    }
    return offers;
  }
  if (const auto* const refused = std::get_if<RefusedComponent>(&result)) {
    throw refused->plugin->refusal->with_context("the recipe needs " + kind + " \"" + name + "\"");
  }
  return {};
}

std::vector<std::string> RegistryCatalog::types_of(const std::string& kind) const {
  return registry_.types_of(kind);
}

std::vector<std::string> RegistryCatalog::kinds() const {
  std::vector<std::string> names;
  for (const KindEntry& entry : all_kinds()) {
    names.emplace_back(entry.kind);
  }
  return names;
}

}  // namespace tenon
