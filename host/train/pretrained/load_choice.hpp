// SPDX-License-Identifier: Apache-2.0
//
// Selects and renames what a load of the recipe reads. Works on names only, of parameters and
// tables: "here" is a name in this run, "there" a name in the source.
// Threads: any, one at a time.
#pragma once

#include "host/recipe/recipe.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Returns the new name if `name` matches the rule. Each '*' of `from` matches any text, as short as
// possible, and replaces the '*' of `to` at the same index.
std::optional<std::string> renamed(const std::string& name, const LoadRename& rule);

class LoadChoice {
 public:
  // Owner  `load` is borrowed
  explicit LoadChoice(const LoadRecipe& load) : load_(load) {}

  // True if the parameter or table with this name here is loaded.
  bool takes(const std::string& name) const;
  // True if all names are loaded.
  bool takes_all() const;
  // Returns the name in this run of the source's name `there`.
  std::string name_here(const std::string& there) const;

  // Returns the patterns that match no name, with their places: "/load/0/match/1: 'head.*'".
  // Includes rename rules only if the load is strict: not every source in a list needs the names
  // that they rename.
  std::vector<std::string> idle(const std::vector<std::string>& here,
                                const std::vector<std::string>& there) const;

 private:
  const LoadRecipe& load_;
};

}  // namespace tenon
