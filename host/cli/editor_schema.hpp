// SPDX-License-Identifier: Apache-2.0
//
// A whole recipe as one JSON Schema (draft 7), for editors: the host's own keys, and in the place
// of each component the options of those that the plugin folders offer. It is made from the very
// schemas that the host checks recipes against; it is never read back by the host.
// Not in it: what follows from several keys together and has no word in JSON Schema (total_steps
// that contradicts steps), what depends on files or on the environment, and references between
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
  std::string name;  // the type, or "plugin-id/type" where several plugins offer it
  std::string plugin_id;
  std::string type;
  std::string summary;         // "" where the plugin gives none
  std::string options_schema;  // JSON text of an object; "" where it takes no options
};

// All components of the plugins that can be used, by kind and name. Loads each plugin.
//
// Errors   those of load_plugin (plugin_loader.hpp)
std::vector<OfferedComponent> offered_components(PluginRegistry& registry);

// Errors   plugin.bad_schema where the options of a component are described by no JSON Schema
nlohmann::json editor_schema(const std::vector<OfferedComponent>& offered);

// The same as text that a file can take, indented by two.
std::string editor_schema_text(const std::vector<OfferedComponent>& offered);

}  // namespace tenon
