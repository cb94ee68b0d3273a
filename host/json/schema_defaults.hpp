// SPDX-License-Identifier: Apache-2.0
//
// Fills in a schema's defaults for missing keys, and normalizes the value for later stages.
// Integers in floating-point notation become integers (1e3 becomes 1000). Keys with
// x-tenon-unavailable are removed.

#pragma once

#include "host/json/place.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tenon {

// Fills `value` recursively, also inside defaults. Tolerates values that violate the schema,
// because schema_check reports them. Defaults get the place "default".
void apply_defaults(nlohmann::json& value,
                    const nlohmann::json& schema,
                    const std::string& pointer,
                    PlaceMap& places);

}  // namespace tenon
