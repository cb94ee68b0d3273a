// SPDX-License-Identifier: Apache-2.0
//
// JSON pointers (RFC 6901) as text: "/hooks/0/options". Messages, places and references all speak
// of values by them. Nothing here throws on a pointer that leads nowhere: absence is a null.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// `base` with one more token, escaped ("~" as "~0", "/" as "~1").
std::string join_pointer(std::string_view base, std::string_view token);
std::string join_pointer(std::string_view base, std::size_t index);

// "/a/b" of "/a/b/c"; "" of "/a" and of "".
std::string_view parent_pointer(std::string_view pointer);

// The unescaped tokens, or nothing where the text is no pointer ("a/b", "/a~2").
std::optional<std::vector<std::string>> split_pointer(std::string_view pointer);

// True where `pointer` is `ancestor` or lies below it.
bool is_at_or_below(std::string_view pointer, std::string_view ancestor);

// The number a list-index token means ("0", "12"; not "01", "-1", "x").
std::optional<std::size_t> parse_index(std::string_view token);

// The value at the pointer, or null where there is none.
//
// Owner    borrowed from `root`
nlohmann::json* find_at(nlohmann::json& root, std::string_view pointer);
const nlohmann::json* find_at(const nlohmann::json& root, std::string_view pointer);

}  // namespace tenon
