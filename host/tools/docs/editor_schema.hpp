// SPDX-License-Identifier: Apache-2.0
//
// A JSON Schema (draft 7) of a complete recipe, for editors: the host's keys, and for each
// component the options of all available types. It is generated from the schemas that the host
// validates recipes against; the host never reads it.
// Not included: rules over several keys that JSON Schema cannot express (total_steps that
// contradicts steps), rules that depend on files or on the environment, and references between
// components.

#pragma once

#include "host/plugin/registry.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// A component that a recipe may name.
struct OfferedComponent {
  std::string kind;
  std::string name;  // the type, or "plugin-id/type" if several plugins offer it
  std::string plugin_id;
  std::string type;
  std::string summary;         // "" if the plugin has none
  std::string options_schema;  // JSON text of an object; "" if it has no options
};

// Returns all components of the usable plugins, by kind and name. Loads each plugin.
//
// Errors   those of load_plugin (plugin_loader.hpp)
std::vector<OfferedComponent> offered_components(PluginRegistry& registry);

// Returns the schema.
//
// Errors   plugin.bad_schema if a component's options schema is not a JSON Schema
nlohmann::json editor_schema(const std::vector<OfferedComponent>& offered);

// Returns the schema as text, indented by 2 spaces, with a line break at the end.
std::string editor_schema_text(const std::vector<OfferedComponent>& offered);

}  // namespace tenon
