// SPDX-License-Identifier: Apache-2.0
//
// JSON pointers (RFC 6901) as text: "/hooks/0/options". Messages, places and references identify
// values by JSON pointer. A missing value is a null result, not an exception.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Appends a token to `base`, escaped ("~" as "~0", "/" as "~1").
std::string join_pointer(std::string_view base, std::string_view token);
std::string join_pointer(std::string_view base, std::size_t index);

// Returns the pointer without its last token: "/a/b" for "/a/b/c"; "" for "/a" and for "".
std::string_view parent_pointer(std::string_view pointer);

// Returns the unescaped tokens, or null if the text is not a pointer ("a/b", "/a~2").
std::optional<std::vector<std::string>> split_pointer(std::string_view pointer);

// True if `pointer` is `ancestor` or below it.
bool is_at_or_below(std::string_view pointer, std::string_view ancestor);

// Returns the list index of a token ("0", "12"), or null if it is not an index ("01", "-1", "x").
std::optional<std::size_t> parse_index(std::string_view token);

// Returns the value at the pointer, or null if it does not exist.
//
// Owner    borrowed from `root`
nlohmann::json* find_at(nlohmann::json& root, std::string_view pointer);
const nlohmann::json* find_at(const nlohmann::json& root, std::string_view pointer);

}  // namespace tenon
