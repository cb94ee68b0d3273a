// SPDX-License-Identifier: Apache-2.0
//
// Rules across keys, which a schema cannot state: keys that exclude, require or contradict others.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Adds the contradictions of a recipe with its defaults to `problems`. Skips values of a wrong
// type. `problems` already lists such values and misspelled keys; their consequences are not
// reported.
void check_contradictions(const nlohmann::json& root,
                          const PlaceMap& places,
                          ProblemList& problems);

// Returns the name of a loss or metric without a "name" key: its type, without the plugin.
std::string default_name(const std::string& type);

}  // namespace tenon
