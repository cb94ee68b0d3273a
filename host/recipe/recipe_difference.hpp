// SPDX-License-Identifier: Apache-2.0
//
// What has changed between the recipe of a checkpoint and that of the run that goes on from it, and
// what of it may: a function of the two texts, by one table of rules (docs/reference/
// resume-changes.md shows it). Not for what only a component knows: its state may still refuse.
// Threads: every function may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

enum class ChangeClass {
  kFree,     // the run is the same but for what the key itself says
  kWarns,    // the run goes on, and is not the one that was
  kRefused,  // what was saved would not fit, or would mean something else
};

// "free", "warns", "refused".
const char* change_class_name(ChangeClass change);

// What holds of a key and of all below it that has no rule of its own.
struct ResumeRule {
  std::string_view key;  // a pointer into the frozen recipe, in which "*" is any name or number
  ChangeClass change;
  std::string_view why;
};

// In the order of the recipe.
std::span<const ResumeRule> resume_rules();

struct RecipeChange {
  std::string pointer;  // in the frozen recipe; "" for the number of ranks
  std::string before;   // as JSON, cut where it is long; "" where there was nothing
  std::string now;      // the same
  ChangeClass change = ChangeClass::kFree;
  std::string why = {};
};

struct RecipeOfRanks {
  std::string_view frozen;  // see frozen_recipe()
  std::int64_t num_ranks = 1;
};

// All differences, in the order of their keys. Lists are compared entry by entry, with what was
// added and removed in their middle as such; a component of another type is one difference.
//
// Errors  recipe.syntax for a text that is no recipe
std::vector<RecipeChange> recipe_changes(const RecipeOfRanks& before, const RecipeOfRanks& now);

// A line a change, refused ones first: "refused  /models/main/options/hidden: [8] -> [16]; why".
std::string changes_text(std::span<const RecipeChange> changes);

// Errors  resume.recipe_changed with those that are refused, if any is; `checkpoint` is for the
//         message
void refuse_changes(std::span<const RecipeChange> changes, const std::string& checkpoint);

}  // namespace tenon
