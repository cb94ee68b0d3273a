// SPDX-License-Identifier: Apache-2.0
//
// The types that plugins offer, and the schema of each type's options. An interface, so that
// reading a recipe does not depend on loading plugins.

#pragma once

#include <string>
#include <vector>

namespace tenon {

// A type that a plugin offers.
struct CatalogEntry {
  std::string plugin_id;  // "org.tenon.llama"
  std::string file;       // path of the plugin, for messages
  std::string schema;     // JSON Schema of the options; "" if the type has no options
};

class ComponentCatalog {
 public:
  virtual ~ComponentCatalog() = default;

  // Returns the plugins that offer the component: none (unknown), one, or several (ambiguous).
  // `name` is a type, or "plugin-id/type". Schemas may be empty if several plugins offer the type.
  //
  // Errors   plugin.* if a plugin offers the component but cannot be loaded
  virtual std::vector<CatalogEntry> find(const std::string& kind,
                                         const std::string& name) const = 0;

  // Returns the types of a kind, sorted and without duplicates.
  virtual std::vector<std::string> types_of(const std::string& kind) const = 0;

  // Returns all kinds that the host knows.
  virtual std::vector<std::string> kinds() const = 0;

  // Returns the searched plugin folders as one text: "build/plugins, /opt/plugins".
  virtual std::string searched() const = 0;

 protected:
  ComponentCatalog() = default;
  ComponentCatalog(const ComponentCatalog&) = default;
  ComponentCatalog& operator=(const ComponentCatalog&) = default;
  ComponentCatalog(ComponentCatalog&&) = default;
  ComponentCatalog& operator=(ComponentCatalog&&) = default;
};

}  // namespace tenon
