// SPDX-License-Identifier: Apache-2.0
//
// JSON values in one line, for people. Bytes that are not UTF-8 become U+FFFD.
// Threads: any.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tenon {

// As JSON: a text has its quotes.
inline std::string dumped(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// A text without its quotes, anything else as JSON.
inline std::string plain(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : dumped(value);
}

}  // namespace tenon
