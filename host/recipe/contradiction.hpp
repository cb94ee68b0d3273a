// SPDX-License-Identifier: Apache-2.0
//
// What no schema can say: keys of the recipe that exclude, need or contradict each other.

#pragma once

#include "host/recipe/place.hpp"
#include "host/recipe/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Adds what contradicts what in a recipe whose defaults are filled in. Values of the wrong type
// are passed over: they have their problems in `problems` already, as do misspelt keys, and
// nothing is reported that follows from those.
void check_contradictions(const nlohmann::json& root,
                          const PlaceMap& places,
                          std::vector<Problem>& problems);

// The name of a loss that has none of its own: its type, without the plugin.
std::string default_name(const std::string& type);

}  // namespace tenon
