// SPDX-License-Identifier: Apache-2.0
//
// What the recipe has to know of plugins: their types, and the schema of each type's options. An
// interface, so that reading a recipe does not depend on loading plugins.

#pragma once

#include <string>
#include <vector>

namespace tenon {

// One plugin's offer of a type.
struct CatalogEntry {
  std::string plugin_id;  // "org.tenon.llama"
  std::string file;       // of the plugin, for messages
  std::string schema;     // JSON Schema of the options; "" means that there are none
};

class ComponentCatalog {
 public:
  virtual ~ComponentCatalog() = default;

  // The plugins that offer the component: none (unknown), one, or several (ambiguous). `name` is a
  // type, or "plugin-id/type". Schemas may be empty if several offer it.
  //
  // Errors   plugin.*, if a plugin offers it but cannot be loaded
  virtual std::vector<CatalogEntry> find(const std::string& kind,
                                         const std::string& name) const = 0;

  // The types of a kind, each once, sorted.
  virtual std::vector<std::string> types_of(const std::string& kind) const = 0;

  // All kinds of component that the host knows.
  virtual std::vector<std::string> kinds() const = 0;

  // The folders that were searched for plugins, as one text: "build/plugins, /opt/plugins".
  virtual std::string searched() const = 0;

 protected:
  ComponentCatalog() = default;
  ComponentCatalog(const ComponentCatalog&) = default;
  ComponentCatalog& operator=(const ComponentCatalog&) = default;
  ComponentCatalog(ComponentCatalog&&) = default;
  ComponentCatalog& operator=(ComponentCatalog&&) = default;
};

}  // namespace tenon
