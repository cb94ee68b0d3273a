// SPDX-License-Identifier: Apache-2.0
//
// The plugins of a run, as the recipe wants to see them: an adapter, since neither folder knows the
// other.

#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/component_catalog.hpp"

#include <string>
#include <vector>

namespace tenon {

class RegistryCatalog : public ComponentCatalog {
 public:
  // `registry` is borrowed. Asking for a component loads its plugin.
  explicit RegistryCatalog(PluginRegistry& registry) : registry_(registry) {}

  // Errors   the plugin.* error that the plugin was refused with, where that is the only one
  std::vector<CatalogEntry> find(const std::string& kind, const std::string& name) const override;
  std::vector<std::string> types_of(const std::string& kind) const override;
  std::string searched() const override { return registry_.describe_folders(); }

 private:
  PluginRegistry& registry_;
};

}  // namespace tenon
