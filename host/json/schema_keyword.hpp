// SPDX-License-Identifier: Apache-2.0
//
// Looks up a keyword of a JSON Schema. The schema of a plugin may be invalid: a keyword whose value
// has the wrong type is ignored (the schema arbiter refuses such schemas).

#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tenon {

enum class KeywordType { kAny, kObject, kArray, kString, kNumber, kBoolean };

// Returns the keyword's value. Returns null if it is missing or has another type, or if `schema` is
// not an object.
//
// Owner    borrowed from `schema`
const nlohmann::json* find_keyword(const nlohmann::json& schema,
                                   const char* name,
                                   KeywordType type = KeywordType::kAny);

}  // namespace tenon
