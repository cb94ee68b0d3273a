// SPDX-License-Identifier: Apache-2.0
//
// The last step of reading a recipe: its frozen text, from complete JSON without problems. It
// cannot fail.

#pragma once

#include "host/json/expand.hpp"
#include "host/recipe/component_check.hpp"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>
#include <vector>

namespace tenon {

// What the checks found out beside the recipe. All are borrowed.
struct FreezeParts {
  const std::vector<CheckedGroup>& groups;            // of the optimizer, in order
  const std::vector<ComponentRef>& refs;              // references inside options
  const ExpandedStrings& strings;                     // strings with variables
  const std::map<std::string, std::string>& folders;  // of relative paths, by pointer
};

// Returns the frozen text of a recipe, see frozen_recipe().
std::string freeze_recipe(const nlohmann::json& root, const FreezeParts& parts);

}  // namespace tenon
