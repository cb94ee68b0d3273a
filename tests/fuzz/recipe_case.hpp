// SPDX-License-Identifier: Apache-2.0
//
// What the fuzz programs for recipes and for --set share: the recipes to start from, the words to
// put in, a catalog with the schemas of all plugins, and the judgement of one reading.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/json_mutator.hpp"

namespace tenon {

// The recipes of the source tree, as text. The first has everything in it.
std::vector<std::string> corpus_recipes();

// From the schema of recipes, those of all components, and corpus_recipes().
const JsonWords& recipe_words();

// Reads a recipe with these --set, as the program does before it creates the first component.
// Returns kFuzzAccepted, or the id of the first error.
//
// Errors   FuzzFinding where an error is none of the catalogue or its message is no text, or where
//          what was accepted freezes to a recipe that is not accepted or freezes otherwise
std::string judge_recipe(const std::string& text, const std::vector<std::string>& sets);

}  // namespace tenon
