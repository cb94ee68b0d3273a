// SPDX-License-Identifier: Apache-2.0
//
// What a schema adds to a value: defaults where keys are absent. It also brings the value into the
// one form that everything behind it reads: integers are integers ("1e3" is 1000), and keys that
// ask for nothing of a part that is not there yet are gone.

#pragma once

#include "host/json/place.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tenon {

// Fills `value`, recursively, also inside defaults. Tolerates values that break the schema: their
// problems were noted elsewhere. Defaults get the place "default".
void apply_defaults(nlohmann::json& value,
                    const nlohmann::json& schema,
                    const std::string& pointer,
                    PlaceMap& places);

}  // namespace tenon
