// SPDX-License-Identifier: Apache-2.0
//
// Rules across keys, which a schema cannot state: keys that exclude, need or contradict each other.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Adds the contradictions of a recipe that has its defaults. Skips values of a wrong type: these
// and misspelled keys are in `problems` already, and their consequences are not reported.
void check_contradictions(const nlohmann::json& root,
                          const PlaceMap& places,
                          std::vector<Problem>& problems);

// The name of a loss without a "name" key: its type, without the plugin.
std::string default_name(const std::string& type);

}  // namespace tenon
