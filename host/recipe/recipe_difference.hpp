// SPDX-License-Identifier: Apache-2.0
//
// The differences between the recipe of a checkpoint and the recipe of the run that resumes from
// it, each with the rule of its key (docs/reference/resume-changes.md). A component may still
// reject its saved state.
// Threads: every function may be called from any thread.
#pragma once

#include "host/recipe/resume_rule.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns "free", "warns" or "refused".
const char* change_class_name(ChangeClass change);

// Returns the rules in the order of the recipe's keys.
std::span<const ResumeRule> resume_rules();

struct RecipeChange {
  std::string pointer;  // in the frozen recipe; "" for the number of ranks
  std::string before;   // as JSON, cut if long; "" if absent
  std::string now;      // the same, or "... with another value" if only a variable's value differs
  ChangeClass change = ChangeClass::kFree;
  std::string why = {};
};

struct RecipeOfRanks {
  std::string_view frozen;  // frozen_recipe()
  std::int64_t num_ranks = 1;
};

// Returns all differences, in the order of their keys. Lists of objects are compared entry by
// entry; entries added or removed in the middle are found. A component of another type is one
// difference. Names of earlier releases are equal to their present names.
//
// Errors  recipe.syntax for text that is not JSON
std::vector<RecipeChange> recipe_changes(const RecipeOfRanks& before, const RecipeOfRanks& now);

// Returns true if a change is at one of these keys ("/data/eval"), or below it.
bool has_change_at(std::span<const RecipeChange> changes, std::span<const char* const> keys);

// Returns one line per change, refused changes first:
// "refused  /models/main/options/hidden: [8] -> [16]; why".
std::string changes_text(std::span<const RecipeChange> changes);

// Throws if a change is refused. `checkpoint` is for the message.
//
// Errors  resume.recipe_changed with the refused changes
void refuse_changes(std::span<const RecipeChange> changes, const std::string& checkpoint);

}  // namespace tenon
