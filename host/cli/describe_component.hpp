// SPDX-License-Identifier: Apache-2.0
//
// --describe: one component, the plugin that brings it, and the options it takes; or keys of the
// recipe.

#pragma once

#include "host/plugin/registry.hpp"

#include <string>
#include <vector>

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

// The options alone as a table for a page.
std::string component_markdown(const LoadedComponent& component);

// The keys of a recipe as a table for a page: those named and what is inside them; with none named,
// all.
//
// Errors   usage.bad_option for a key that a recipe does not have
std::string recipe_markdown(const std::vector<std::string>& keys);

// A JSON object: kind, type, summary, interface, plugin ({id, version, file}), options_schema.
std::string component_json(const LoadedComponent& component);

}  // namespace tenon
