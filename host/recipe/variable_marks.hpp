// SPDX-License-Identifier: Apache-2.0
//
// Compares strings of frozen recipes that have variables, without the values of the variables.
// "${ENV:DIR}/a" with the fingerprint 9f3c of DIR becomes "${ENV:DIR__9f3c}/a": equal strings then
// have equal values.
// Threads: any.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tenon {

// Marks the variables of a frozen recipe, and removes its fingerprints.
void mark_variables(nlohmann::json& recipe);

// Returns a marked value as the frozen recipe has it.
nlohmann::json without_marks(nlohmann::json value);

// True if two marked values are equal as far as fingerprints show. One may have a variable where
// the other has a text: earlier releases froze the values of variables.
bool have_equal_values(const nlohmann::json& a, const nlohmann::json& b);

// True if a marked string is a path from the root, or a URI. Uses the values of this process.
bool is_path_or_uri(const nlohmann::json& value);

}  // namespace tenon
