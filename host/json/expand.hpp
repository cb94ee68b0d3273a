// SPDX-License-Identifier: Apache-2.0
//
// Replaces ${ENV:NAME} in the strings of a recipe by the value of an environment variable. "$${"
// means a literal "${". Keys are never expanded, and the result is always a string. Values may be
// secrets: what is saved, printed or logged has the strings as written (written_text.hpp), and a
// fingerprint of each value.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns the value of a variable, or null if it is not set.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Looks up variables in the environment of this process.
EnvLookup process_environment();

// A string that has ${ENV:NAME}.
struct ExpandedString {
  std::string written;   // "s3://${ENV:KEY}@bucket"
  std::string expanded;  // "s3://AKIA@bucket"
};

struct ExpandedStrings {
  std::map<std::string, ExpandedString> by_pointer;
  std::map<std::string, std::string> fingerprints;  // of the values, by variable
};

// Expands every string in `value`, in place, and returns those that have variables. Adds the
// problems recipe.env_unset, recipe.bad_env and recipe.not_utf8, each with its place.
ExpandedStrings expand_environment(nlohmann::json& value,
                                   const EnvLookup& lookup,
                                   PlaceMap& places,
                                   ProblemList& problems);

// Returns 4 hexadecimal digits that differ for another value, except once in 65,536 times. So few
// bits do not identify the value: of a million guesses, 15 fit. They depend on the value only.
// Random salt would give away more bits with each run.
std::string value_fingerprint(std::string_view value);

// A part of a string.
struct TextPart {
  std::string text;  // literal, without escapes; or the name of a variable
  bool is_variable = false;
};

// Splits a string into literals and variables. Returns null if it has a "${" that is neither
// escaped nor an ${ENV:NAME}.
std::optional<std::vector<TextPart>> split_environment(std::string_view text);

// Returns the text that expands to `text`, with every "${" written as "$${".
std::string escape_environment(std::string_view text);

}  // namespace tenon
