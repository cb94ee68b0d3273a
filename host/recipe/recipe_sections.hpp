// SPDX-License-Identifier: Apache-2.0
//
// Schemas, resume rules and reading of recipes, derived from the keys that the sections bind.
#pragma once

#include "host/recipe/bound_keys.hpp"
#include "host/recipe/recipe.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Returns the schema of a complete recipe, with keys in the order in which they are bound.
//
// Owner    lives as long as the program
const nlohmann::ordered_json& ordered_recipe_schema();

// Fills a recipe from complete JSON, and `keys` with the keys that it reads. Skips values that have
// a problem. Components have their kind, type and place only.
void read_sections(const nlohmann::json& root, BoundKeys& keys, Recipe& recipe);

// Returns the resume rules of all keys of a frozen recipe, in the order of the keys.
std::vector<ResumeRule> recipe_resume_rules();

// Parses text such as "com.example.ctr >= 1.2", which the schema has checked.
PluginNeed parse_need(const std::string& text, const std::string& pointer);

}  // namespace tenon
