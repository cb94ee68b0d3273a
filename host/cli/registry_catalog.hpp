// SPDX-License-Identifier: Apache-2.0
//
// Adapts the plugins of a run to the recipe's ComponentCatalog, so that host/plugin and host/recipe
// stay independent of each other.

#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/component_catalog.hpp"

#include <string>
#include <vector>

namespace tenon {

class RegistryCatalog : public ComponentCatalog {
 public:
  // `registry` is borrowed. Looking up a component loads its plugin.
  explicit RegistryCatalog(PluginRegistry& registry) : registry_(registry) {}

  // Errors   the plugin.* error of a rejected plugin, if no other plugin offers the component
  std::vector<CatalogEntry> find(const std::string& kind, const std::string& name) const override;
  std::vector<std::string> types_of(const std::string& kind) const override;
  std::vector<std::string> kinds() const override;
  std::string searched() const override {
    return registry_.describe_folders() + registry_.describe_not_plugins();
  }

 private:
  PluginRegistry& registry_;
};

}  // namespace tenon
