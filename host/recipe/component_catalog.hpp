// SPDX-License-Identifier: Apache-2.0
//
// What the recipe has to know of plugins: which types there are, and the schema of the options of
// each. The plugin folder's registry is put behind it by whoever starts the program, since the
// recipe is read without knowing how plugins are loaded.

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

  // Who offers the component: none (unknown), one, or several (ambiguous). `name` is a type, or
  // "plugin-id/type". Schemas may be left empty where several offer it.
  //
  // Errors   plugin.*, where an offer is there but the plugin cannot be loaded
  virtual std::vector<CatalogEntry> find(const std::string& kind,
                                         const std::string& name) const = 0;

  // The types of a kind, each once, sorted.
  virtual std::vector<std::string> types_of(const std::string& kind) const = 0;

  // Where plugins were looked for, as one text: "build/plugins, /opt/plugins".
  virtual std::string searched() const = 0;

 protected:
  ComponentCatalog() = default;
  ComponentCatalog(const ComponentCatalog&) = default;
  ComponentCatalog& operator=(const ComponentCatalog&) = default;
  ComponentCatalog(ComponentCatalog&&) = default;
  ComponentCatalog& operator=(ComponentCatalog&&) = default;
};

}  // namespace tenon
