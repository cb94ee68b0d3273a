// SPDX-License-Identifier: Apache-2.0
//
// Parses JSON text into a value, and records the line of each part. Unlike nlohmann::json by
// default, rejects duplicate keys and allows // and /* */ comments.
// Lines come from the number of characters that the parser has read at each of its events, because
// a parsed tree does not contain the lines of keys.

#pragma once

#include "host/json/place.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon {

// Maximum nesting of lists and objects. It limits the recursion of every walk over a recipe.
inline constexpr int kMaxJsonDepth = 100;
// Maximum number of values, lists and objects too: each takes about 400 bytes with its line.
inline constexpr std::size_t kMaxJsonValues = 250'000;

// Parses `text`, and sets `places` to its lines, as lines of `file`.
//
// Errors   recipe.syntax, with line, column and the line itself; recipe.duplicate_key;
//          recipe.too_deep; recipe.too_many_values
nlohmann::json parse_json(std::string_view text, const std::string& file, PlaceMap& places);

// Parses `text` without places, for schemas. Errors name `name` as the file.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// Returns the text of a recipe file.
//
// Errors   recipe.unreadable, also for a file of more than 64 MiB, and for a FIFO or a device
std::string read_recipe_text(const std::string& path);

}  // namespace tenon
