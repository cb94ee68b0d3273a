// SPDX-License-Identifier: Apache-2.0
//
// The host's part of the recipe as a JSON Schema, derived from the keys that the sections bind
// (recipe_sections.hpp). Components describe their own options.
//
// Tenon's own keywords, none of which --print-schema prints:
//   x-tenon-slot            kind of the component that the object is
//   x-tenon-path            the string is a path
//   x-tenon-null            value that null stands for
//   x-tenon-unavailable     this release does not support the key
//   x-tenon-renamed         old names of keys, and their present names
//   x-tenon-renamed-values  old names of values, and their present names
//   x-tenon-resume          whether the key may change when a run resumes
//   x-tenon-short-form      the key is a short form of another key, or does not affect the run
//   x-tenon-one-or-named    one dataset, or several by name (one_or_named.hpp)
//   x-tenon-printed         rules across keys (recipe_rules.hpp), for --print-schema only

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon {

// Returns the schema of a complete recipe.
//
// Owner    lives as long as the program
const nlohmann::json& recipe_schema();

// Returns recipe_schema() as text, with keys in the order in which the sections bind them.
std::string recipe_schema_text();

// Returns a valid name for `text`, a file name or type: replaces characters that the schema
// forbids, and cuts at 100 characters. Never empty.
std::string as_name(std::string_view text);

// Returns the name of a loss or metric without a "name" key: its type, without the plugin.
std::string default_name(const std::string& type);

// Returns the name of a mix's entry without a "name" key: "text-1" for `number` 0 of type "text".
std::string mix_name(const std::string& type, std::size_t number);

}  // namespace tenon
