// SPDX-License-Identifier: Apache-2.0
//
// JSON text to a value and the places of all that is in it. Stricter than the parser it rests on
// (a key that stands twice is an error) and kinder (// and /* */ comments are allowed).
// Positions come from counting the characters that the parser has read at each of its events: that
// gives the line of each key, which values parsed as a tree do not keep.

#pragma once

#include "host/json/place.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace tenon {

// How deep lists and objects may be nested; every walk over a recipe recurses so deep at most.
inline constexpr int kMaxJsonDepth = 100;

// Parses `text`, whose lines are noted in `places` as lines of `file`.
//
// Errors   recipe.syntax, with line, column and the line itself; recipe.duplicate_key;
//          recipe.too_deep
nlohmann::json parse_json(std::string_view text, const std::string& file, PlaceMap& places);

// As above where places are of no use (schemas).
nlohmann::json parse_json(std::string_view text, const std::string& name);

// The whole text of a recipe file.
//
// Errors   recipe.unreadable, also for a file above 64 MiB
std::string read_recipe_text(const std::string& path);

}  // namespace tenon
