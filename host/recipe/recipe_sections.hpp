// SPDX-License-Identifier: Apache-2.0
//
// What follows from the keys that the sections of a recipe bind.
#pragma once

#include "host/recipe/component_use.hpp"
#include "host/recipe/recipe.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <vector>

namespace tenon {

// The schema of a whole recipe, with keys in the order in which they are bound.
//
// Owner    lives as long as the program
const nlohmann::ordered_json& ordered_recipe_schema();

// The same of one dataset or mix.
//
// Owner    lives as long as the program
const nlohmann::ordered_json& ordered_dataset_schema();

// Fills a recipe from JSON that is checked and complete. `components` are those that the recipe
// itself names, by pointer.
void read_sections(const nlohmann::json& root,
                   const std::map<std::string, ComponentUse>& components,
                   Recipe& recipe);

// The resume rules of all keys of a frozen recipe, in the order of the keys.
std::vector<ResumeRule> recipe_resume_rules();

// "com.example.ctr >= 1.2"; the schema has checked the text.
PluginNeed parse_need(const std::string& text, const std::string& pointer);

}  // namespace tenon
