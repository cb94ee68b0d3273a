// SPDX-License-Identifier: Apache-2.0
//
// Values and schemas put into words, for messages: `300`, `"adamw"`, `a list of 3`; `integer of at
// least 1`, `one of: "fp32", "fp64"`.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// A scalar as JSON, cut where long; a container by its size.
std::string brief_value(const nlohmann::json& value);

// "null", "boolean", "integer", "number", "string", "list", "object".
std::string_view type_word(const nlohmann::json& value);

// What the schema asks for, in a few words; "any value" where it asks for nothing.
std::string expected_words(const nlohmann::json& schema);

// `steps, epochs, ...` : at most a dozen, then how many there are.
std::string name_list(const std::vector<std::string>& names);

// The keys of an object, or none.
std::vector<std::string> keys_of(const nlohmann::json& object);

}  // namespace tenon
