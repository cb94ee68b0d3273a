// SPDX-License-Identifier: Apache-2.0
//
// A complete recipe as text, for the run folder's recipe.json and for --print-recipe.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tenon {

// Returns JSON text, indented by two spaces, that ends in a line break. Keys are in the order of
// the schema (name, seed, models, data, ...), keys of options in alphabetical order. Short lists of
// plain values are on one line. "${" in strings is escaped, so that reading the text gives the same
// value.
std::string print_recipe(const nlohmann::json& recipe);

}  // namespace tenon
