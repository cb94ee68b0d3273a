// SPDX-License-Identifier: Apache-2.0
//
// A value held against a JSON Schema, with messages that say where, what was expected, what was
// found, and the nearest name. The walk knows the keywords that option schemas use: type,
// properties, required, additionalProperties, items, enum, const, minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern, minItems, maxItems,
// uniqueItems, oneOf, anyOf, allOf. Others are left to the schema arbiter.
//
// Keywords of Tenon's own, for which JSON Schema has no word:
//   x-tenon-component  "tokenizer": the value is {"type", "options"} or {"ref": "/path"}
//   x-tenon-path       true: the value is a path
//   x-tenon-unavailable         {"what": "checkpoints", "unless": [null]}: refused, but for values
//                               that ask for nothing
//   x-tenon-unavailable-values  ["bf16"]: values with a meaning that this release does not have

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// A string above this length is never put to a regular expression: the matcher recurses once a
// character.
inline constexpr std::size_t kMaxPatternBytes = 4096;

// Adds every problem of `value` (the one at `pointer` of the recipe) to `problems`. The schema has
// been judged by check_schema_form() or is the host's own.
void check_schema(const nlohmann::json& value,
                  const nlohmann::json& schema,
                  const std::string& pointer,
                  const PlaceMap& places,
                  std::vector<Problem>& problems);

}  // namespace tenon
