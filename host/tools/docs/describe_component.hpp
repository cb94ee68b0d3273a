// SPDX-License-Identifier: Apache-2.0
//
// The output of --describe: a component, its plugin and its options, or keys of the recipe.

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

// Returns the component, its plugin and a table of its options, for terminals. Nested options
// have separate rows ("range.first", "layers[].width").
std::string component_text(const LoadedComponent& component);

// Returns the options as a Markdown table.
std::string component_markdown(const LoadedComponent& component);

// Returns keys of a recipe as a Markdown table: `keys` with their nested keys, or all keys if
// `keys` is empty.
//
// Errors   usage.bad_option for a key that a recipe does not have
std::string recipe_markdown(const std::vector<std::string>& keys);

// Returns a JSON object: kind, type, summary, interface, plugin ({id, version, file}),
// options_schema.
std::string component_json(const LoadedComponent& component);

}  // namespace tenon
