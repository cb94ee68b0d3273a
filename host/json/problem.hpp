// SPDX-License-Identifier: Apache-2.0
//
// Problems of a recipe. They are collected, and thrown together as RecipeErrors, so that the user
// sees all of them at once.

#pragma once

#include "host/error/error.hpp"
#include "host/json/place.hpp"

#include <cstddef>
#include <initializer_list>
#include <span>
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

// The problems found so far, in the order of checks. Keeps the first kMaxKept: a file of wrong
// entries costs no more time and memory than those.
class ProblemList {
 public:
  static constexpr std::size_t kMaxKept = 100;

  ProblemList() = default;
  ProblemList(std::initializer_list<Problem> problems) : kept_(problems) {}

  // Adds a problem, or drops it if the list is full.
  void push_back(Problem problem);
  // Adds the problems of another list, which was filled separately.
  void append(ProblemList other);
  // The problem added last, also if it was dropped.
  Problem& back() { return is_last_dropped_ ? dropped_ : kept_.back(); }

  // True if further checks are of no use, because their problems would be dropped.
  bool is_full() const noexcept { return kept_.size() >= kMaxKept; }
  bool empty() const noexcept { return kept_.empty(); }
  // Number of problems found, with those dropped. Checks that stop at a full list do not count.
  std::size_t size() const noexcept { return kept_.size() + num_dropped_; }
  const std::vector<Problem>& kept() const noexcept { return kept_; }
  // The same, to change their texts.
  std::span<Problem> editable() noexcept { return kept_; }

 private:
  std::vector<Problem> kept_;
  std::size_t num_dropped_ = 0;
  bool is_last_dropped_ = false;
  Problem dropped_ = {};
};

// All problems of a recipe. Its id is that of the problem if there is only one, else
// recipe.invalid. Its message is the report.
class RecipeErrors : public Error {
 public:
  // `recipe` is the file as the user named it. `problems` must not be empty; they are sorted by
  // place.
  RecipeErrors(const std::string& recipe, const ProblemList& problems);

  // Those that the list kept.
  const std::vector<Problem>& problems() const noexcept { return problems_; }

  // The first 50 problems as text, and a last line such as "3 errors in recipes/bad.json; nothing
  // was started". If the list is full, the line says "at least 100 errors".
  const std::string& report() const noexcept { return message(); }

 private:
  // `problems` is already sorted.
  RecipeErrors(std::vector<Problem> problems, std::string_view recipe);

  std::vector<Problem> problems_;
};

}  // namespace tenon
