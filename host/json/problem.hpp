// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a recipe. Problems are collected, never thrown one by one: whoever mends a
// recipe wants all of them at once. RecipeErrors carries them out.

#pragma once

#include "host/error/error.hpp"
#include "host/json/place.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct Problem {
  std::string id;             // of the catalogue: "recipe.unknown_key"
  Place place;                //
  std::string pointer;        // "/train/stpes"; "" for the recipe as a whole
  std::string what;           // "unknown key"
  std::string expected = {};  // "integer of at least 1"; "" for nothing to say
  std::string found = {};     // "\"stpes\""
  std::string hint = {};      // "did you mean \"steps\"?", behind what was found
  std::string note = {};      // a line of its own: what to do
};

// One line, then two to four indented ones:
//
//     recipes/bad.json:12: /train/stpes: unknown key [recipe.unknown_key]
//         expected one of: steps, epochs, windows
//         found: "stpes"; did you mean "steps"?
std::string render(const Problem& problem);

// All the problems of a recipe. Its id is recipe.invalid, or that of the only problem; its message
// is the report.
class RecipeErrors : public Error {
 public:
  // `recipe` is the name the file was given by. `problems` must not be empty; they are sorted by
  // place.
  RecipeErrors(const std::string& recipe, std::vector<Problem> problems);

  const std::vector<Problem>& problems() const noexcept { return problems_; }

  // Every problem rendered, and a last line "3 errors in recipes/bad.json; nothing was started".
  const std::string& report() const noexcept { return message(); }

 private:
  // The argument is sorted already.
  RecipeErrors(std::vector<Problem> problems, std::string_view recipe);

  std::vector<Problem> problems_;
};

}  // namespace tenon
