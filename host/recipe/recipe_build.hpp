// SPDX-License-Identifier: Apache-2.0
//
// The last step of reading a recipe: makes a Recipe and its frozen text from checked JSON. It
// cannot fail.

#pragma once

#include "host/json/expand.hpp"
#include "host/recipe/component_check.hpp"
#include "host/recipe/recipe.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <vector>

namespace tenon {

struct RecipeParts {
  std::string path;                          // recipe file
  int compute_threads = 0;                   // if the recipe does not set it; 0: one per processor
  std::map<std::string, ComponentUse> uses;  // components outside options, by pointer
  std::vector<CheckedGroup> groups;          // groups of the optimizer, in order
  std::vector<ComponentRef> refs;            // references inside options
  ExpandedStrings strings;                   // strings with variables
  std::map<std::string, std::string> folders;  // of relative paths, by pointer
};

// Builds the recipe from `root`, which has passed every check and has the defaults of its schemas.
// The caller adds the places of `needs`.
Recipe build_recipe(nlohmann::json root, const RecipeParts& parts);

}  // namespace tenon
