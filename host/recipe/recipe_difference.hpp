// SPDX-License-Identifier: Apache-2.0
//
// The differences between the recipe of a checkpoint and that of the run that resumes from it, each
// with the rule of its key (docs/reference/resume-changes.md). Not for what only a component knows:
// its state may still refuse.
// Threads: every function may be called from any thread.
#pragma once

#include "host/recipe/resume_rule.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// "free", "warns", "refused".
const char* change_class_name(ChangeClass change);

// In the order of the recipe.
std::span<const ResumeRule> resume_rules();

struct RecipeChange {
  std::string pointer;  // in the frozen recipe; "" for the number of ranks
  std::string before;   // as JSON, cut if long; "" if absent
  std::string now;      // the same
  ChangeClass change = ChangeClass::kFree;
  std::string why = {};
};

struct RecipeOfRanks {
  std::string_view frozen;  // see frozen_recipe()
  std::int64_t num_ranks = 1;
};

// All differences, in the order of their keys. Lists are compared entry by entry; entries added or
// removed in the middle are found. A component of another type is one difference. Names of earlier
// releases count as their present ones.
//
// Errors  recipe.syntax for a text that is no recipe
std::vector<RecipeChange> recipe_changes(const RecipeOfRanks& before, const RecipeOfRanks& now);

// One line per change, refused ones first: "refused  /models/main/options/hidden: [8] -> [16];
// why".
std::string changes_text(std::span<const RecipeChange> changes);

// Errors  resume.recipe_changed with the refused changes, if there are any; `checkpoint` is for the
//         message
void refuse_changes(std::span<const RecipeChange> changes, const std::string& checkpoint);

}  // namespace tenon
