// SPDX-License-Identifier: Apache-2.0
//
// The last step of reading a recipe: from checked JSON to a Recipe and its frozen text. Nothing
// here can fail.

#pragma once

#include "host/recipe/component_check.hpp"
#include "host/recipe/recipe.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <vector>

namespace tenon {

struct RecipeParts {
  std::string path;                          // of the recipe file
  int compute_threads = 0;                   // if the recipe says nothing; 0: one per core
  std::map<std::string, ComponentUse> uses;  // the recipe's own components, by pointer
  std::vector<CheckedGroup> groups;          // of the optimizer, in order
  std::vector<ComponentRef> refs;            // inside options
};

// `root` has passed every check and has the defaults of its schemas. The caller adds the places of
// `needs`.
Recipe build_recipe(nlohmann::json root, const RecipeParts& parts);

}  // namespace tenon
