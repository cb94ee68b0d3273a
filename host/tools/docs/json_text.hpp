// SPDX-License-Identifier: Apache-2.0
//
// JSON values as one line of text for messages and tables. Bytes that are not UTF-8 become U+FFFD.
// Threads: any.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tenon {

// Returns the value as JSON; strings are quoted.
inline std::string dumped(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Returns a string without quotes, any other value as JSON.
inline std::string plain(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : dumped(value);
}

}  // namespace tenon
