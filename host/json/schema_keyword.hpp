// SPDX-License-Identifier: Apache-2.0
//
// Looks up one keyword of a JSON Schema. A plugin's schema may hold anything: a keyword whose value
// has the wrong type is as good as none (the schema arbiter refuses such schemas).

#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tenon {

enum class KeywordType { kAny, kObject, kArray, kString, kNumber, kBoolean };

// The keyword's value, or null where it is absent, of another type, or `schema` is no object.
//
// Owner    borrowed from `schema`
const nlohmann::json* find_keyword(const nlohmann::json& schema,
                                   const char* name,
                                   KeywordType type = KeywordType::kAny);

}  // namespace tenon
