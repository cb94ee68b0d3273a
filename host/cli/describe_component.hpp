// SPDX-License-Identifier: Apache-2.0
//
// --describe KIND:TYPE: one component, the plugin that brings it, and the options it takes.

#pragma once

#include "host/plugin/registry.hpp"

#include <string>

namespace tenon {

// Finds a component by kind and name (a type, or "plugin-id/type") and loads its plugin.
//
// Errors   recipe.unknown_type with the nearest name, recipe.ambiguous_type, plugin.*
const LoadedComponent& component_to_describe(PluginRegistry& registry,
                                             const std::string& kind,
                                             const std::string& name);

// For people: the options in a table, made from their JSON Schema. Options inside options are rows
// of their own ("range.first", "layers[].width").
std::string component_text(const LoadedComponent& component);

// A JSON object: kind, type, summary, interface, plugin ({id, version, file}), options_schema.
std::string component_json(const LoadedComponent& component);

}  // namespace tenon
