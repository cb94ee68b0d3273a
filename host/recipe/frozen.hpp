// SPDX-License-Identifier: Apache-2.0
//
// A complete recipe as text: the run folder's recipe.json, and --print-recipe.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tenon {

// JSON text, indented by two, that ends in a line break. Keys stand in the order in which a
// recipe is read (name, seed, models, data, ...), keys of options in that of the alphabet; short
// lists of plain values stand on one line. "${" in strings is escaped, so that reading the text
// gives the value again.
std::string print_recipe(const nlohmann::json& recipe);

}  // namespace tenon
