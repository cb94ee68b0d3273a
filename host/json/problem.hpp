// SPDX-License-Identifier: Apache-2.0
//
// Problems of a recipe. They are collected, and thrown together as RecipeErrors, so that the user
// sees all of them at once.

#pragma once

#include "host/error/error.hpp"
#include "host/json/place.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct Problem {
  std::string id;             // from the error catalog: "recipe.unknown_key"
  Place place;                // where the value was written
  std::string pointer;        // "/train/stpes"; "" for the recipe as a whole
  std::string what;           // "unknown key"
  std::string expected = {};  // "integer of at least 1"; may be ""
  std::string found = {};     // "\"stpes\""; may be ""
  std::string hint = {};      // "did you mean \"steps\"?", printed after `found`
  std::string note = {};      // what to do, on a separate line
};

// Formats a problem as one line, then up to three indented parts (expected, found and hint, note):
//
//     recipes/bad.json:12: /train/stpes: unknown key [recipe.unknown_key]
//         expected one of: steps, epochs, windows
//         found: "stpes"; did you mean "steps"?
std::string render(const Problem& problem);

// All problems of a recipe. Its id is that of the problem if there is only one, else
// recipe.invalid. Its message is the report.
class RecipeErrors : public Error {
 public:
  // `recipe` is the file as the user named it. `problems` must not be empty; they are sorted by
  // place.
  RecipeErrors(const std::string& recipe, std::vector<Problem> problems);

  const std::vector<Problem>& problems() const noexcept { return problems_; }

  // The first 50 problems as text, and a last line such as "3 errors in recipes/bad.json; nothing
  // was started".
  const std::string& report() const noexcept { return message(); }

 private:
  // `problems` is already sorted.
  RecipeErrors(std::vector<Problem> problems, std::string_view recipe);

  std::vector<Problem> problems_;
};

}  // namespace tenon
