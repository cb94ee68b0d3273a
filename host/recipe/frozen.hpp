// SPDX-License-Identifier: Apache-2.0
//
// A complete recipe as text, for the run folder's recipe.json and for --print-recipe.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <string>

namespace tenon {

// Strings of a recipe with ${ENV:NAME}, by pointer.
using WrittenStrings = std::map<std::string, std::string>;

// Returns JSON text, indented by two spaces, that ends in a line break. Keys are in the order of
// the schema (name, seed, models, data, ...), keys of options in alphabetical order. Short lists of
// plain values are on one line. "${" in strings is escaped, so that reading the text gives the same
// value. The strings in `written` are printed as they are.
std::string print_recipe(const nlohmann::json& recipe, const WrittenStrings& written = {});

// Returns a string of a frozen recipe with the values that its variables have in this process. A
// variable that is not set stays.
std::string expanded_string(const std::string& frozen);

}  // namespace tenon
