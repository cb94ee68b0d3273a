// SPDX-License-Identifier: Apache-2.0
//
// Validates a value against a JSON Schema. Messages contain the place, the expected and the found
// value, and the most similar name. Supports the keywords that option schemas use: type,
// properties, required, additionalProperties, items, enum, const, minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern, minItems, maxItems,
// uniqueItems, oneOf, anyOf, allOf. The schema arbiter checks all other keywords.
//
// Tenon's own keywords:
//   x-tenon-component  "tokenizer": the value is {"type", "options"} or {"ref": "/path"}
//   x-tenon-path       true: the value is a path
//   x-tenon-unavailable         {"what": "checkpoints", "unless": [null]}: not supported yet; all
//                               values except those in "unless" are rejected
//   x-tenon-unavailable-values  ["bf16"]: values that this release does not support yet
//   x-tenon-renamed             {"old_key": "new_key"}: keys of earlier releases
//   x-tenon-renamed-values      {"old": "new"}: values of earlier releases

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Maximum length of a string that is matched against a regular expression, because the matcher
// recurses once per character.
inline constexpr std::size_t kMaxPatternBytes = 4096;

// Adds every problem of `value`, which is at `pointer` in the recipe, to `problems`; stops when
// that is full. The schema must be the host's, or one that SchemaArbiter accepts.
void check_schema(const nlohmann::json& value,
                  const nlohmann::json& schema,
                  const std::string& pointer,
                  const PlaceMap& places,
                  ProblemList& problems);

}  // namespace tenon
