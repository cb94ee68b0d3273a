// SPDX-License-Identifier: Apache-2.0
//
// The host's own part of the recipe as a JSON Schema, derived from the keys that the sections bind
// (recipe_sections.hpp). Components describe their own options.
//
// Keywords of Tenon's own, none of which --print-schema prints:
//   x-tenon-slot            kind of the component that the object is
//   x-tenon-path            the string is a path
//   x-tenon-null            value that null stands for
//   x-tenon-unavailable     this release lacks the part that the key asks for
//   x-tenon-renamed         old names of keys, and their present ones
//   x-tenon-renamed-values  the same of values
//   x-tenon-resume          whether the key may change when a run resumes
//   x-tenon-short-form      another way to write a key of the frozen recipe
//   x-tenon-one-or-named    the schema of one dataset, or of each dataset by name
//   x-tenon-printed         rules over several keys for --print-schema alone

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon {

// The schema of a whole recipe. It allows any object for "data.eval" and "data.test", which are one
// dataset or several by name: check these with dataset_schema().
//
// Owner    lives as long as the program
const nlohmann::json& recipe_schema();

// The schema of one dataset entry ("data.train", "data.eval" or an entry of it).
//
// Owner    lives as long as the program
const nlohmann::json& dataset_schema();

// recipe_schema() as text, with keys in the order in which the sections bind them.
std::string recipe_schema_text();

// Replaces characters that the schema forbids in names, for names that derive from files and types.
// Never empty.
std::string as_name(std::string_view text);

// The name of entry `number` of a mix, from 0, without a "name" key: "text-1".
std::string mix_name(const std::string& type, std::size_t number);

}  // namespace tenon
