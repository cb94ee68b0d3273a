// SPDX-License-Identifier: Apache-2.0
//
// Describes values and schemas in messages: `300`, `"adamw"`, `a list of 40 entries`; `integer of
// at least 1`, `one of: "fp32", "fp64"`.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns a value as JSON. Long strings are truncated; for a long list or object, returns its size.
std::string brief_value(const nlohmann::json& value);

// "null", "boolean", "integer", "number", "string", "list", "object".
std::string_view type_word(const nlohmann::json& value);

// Describes the values that the schema allows; "any value" if it has no constraints.
std::string expected_words(const nlohmann::json& schema);

// Lists names: `steps, epochs`. If there are more than 14, lists the first 12 and the total.
std::string name_list(const std::vector<std::string>& names);

// Returns the keys of an object; empty for other values.
std::vector<std::string> keys_of(const nlohmann::json& object);

}  // namespace tenon
