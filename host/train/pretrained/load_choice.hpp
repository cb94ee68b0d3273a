// SPDX-License-Identifier: Apache-2.0
//
// Which names a load of the recipe is about, and what names there are called here. It knows names
// alone: of parameters and tables, here and in the source.
// Threads: any, one at a time.
#pragma once

#include "host/recipe/recipe.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tenon {

// What `name` becomes, where it fits the rule: each '*' of `from` is any text, the shortest that
// fits, and stands in the '*' of `to` at the same place.
std::optional<std::string> renamed(const std::string& name, const LoadRename& rule);

class LoadChoice {
 public:
  // Borrowed.
  explicit LoadChoice(const LoadRecipe& load) : load_(load) {}

  // Whether what has this name here is loaded.
  bool takes(const std::string& name) const;
  // Whether that is everything.
  bool takes_all() const;
  // What `there` is called here.
  std::string name_here(const std::string& there) const;

  // The patterns that fit none of the names, with their places: "/load/0/match/1: 'head.*'".
  // Renames only where they must: sources of a list need not all have what they are about.
  std::vector<std::string> idle(const std::vector<std::string>& here,
                                const std::vector<std::string>& there) const;

 private:
  const LoadRecipe& load_;
};

}  // namespace tenon
