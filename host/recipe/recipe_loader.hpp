// SPDX-License-Identifier: Apache-2.0
//
// From a recipe file, --set and the environment to a Recipe. In two phases, since what plugins to
// load is written in the recipe, and how to check it is written in the plugins: read_recipe() does
// what the host can alone, finish_recipe() the rest. Problems of both are reported together.

#pragma once

#include "host/recipe/component_catalog.hpp"
#include "host/recipe/expand.hpp"
#include "host/recipe/problem.hpp"
#include "host/recipe/recipe.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct RecipeRequest {
  std::string path;                    // shown in messages as it is given
  std::vector<std::string> sets = {};  // "train.steps=10", in the order of the command line
  int compute_threads = 0;             // where the recipe leaves it open; 0 is one a core
  EnvLookup environment = process_environment();
};

// A component that the recipe names.
struct NeededComponent {
  std::string kind;  // "" inside options, where only the schema of the outer one can tell
  std::string name;  // a type, or "plugin-id/type"
  std::string pointer;
};

// A recipe after its first phase: read, overridden, expanded, and held against the host's schema.
class RecipeDraft {
 public:
  RecipeDraft(RecipeDraft&&) noexcept;
  RecipeDraft& operator=(RecipeDraft&&) noexcept;
  RecipeDraft(const RecipeDraft&) = delete;
  RecipeDraft& operator=(const RecipeDraft&) = delete;
  ~RecipeDraft();

  // What it names, as far as can be known without the schemas of components: inside options, every
  // object with a "type" is taken for one.
  const std::vector<NeededComponent>& components() const;

  // "plugins.need", where it is well-formed.
  const std::vector<PluginNeed>& plugins() const;

  // What was found wrong so far; finish_recipe() throws these and its own.
  const std::vector<Problem>& problems() const;

  // The recipe's name: of the run folder.
  const std::string& file() const;

  struct Impl;

 private:
  friend RecipeDraft read_recipe(const RecipeRequest& request);
  friend Recipe finish_recipe(RecipeDraft draft, const ComponentCatalog& catalog);

  explicit RecipeDraft(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// The first phase. It throws only for what leaves nothing to look at.
//
// Errors   recipe.unreadable, recipe.syntax, recipe.duplicate_key, recipe.too_deep, usage.bad_set
RecipeDraft read_recipe(const RecipeRequest& request);

// The second phase: options against the schemas of their components, defaults, references, and
// what contradicts what.
//
// Errors   RecipeErrors with every problem of both phases; plugin.bad_schema; what the catalog
//          throws
Recipe finish_recipe(RecipeDraft draft, const ComponentCatalog& catalog);

// Both phases, where the catalog is there already.
Recipe load_recipe(const RecipeRequest& request, const ComponentCatalog& catalog);

}  // namespace tenon
