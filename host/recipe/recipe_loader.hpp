// SPDX-License-Identifier: Apache-2.0
//
// Reads a Recipe from a file, --set and the environment, in two phases: the recipe names the
// plugins to load, and the plugins define how to check the recipe. read_recipe() does the part that
// needs no plugin, finish_recipe() the rest. Problems of both phases are reported together.

#pragma once

#include "host/json/expand.hpp"
#include "host/json/problem.hpp"
#include "host/recipe/component_catalog.hpp"
#include "host/recipe/recipe.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct RecipeRequest {
  std::string path;                    // shown in messages as given
  std::vector<std::string> sets = {};  // "train.steps=10", in the order of the command line
  int compute_threads = 0;             // if the recipe does not set it; 0: one per processor
  EnvLookup environment = process_environment();
  bool takes_old_names = false;  // for a checkpoint's recipe, which may use names of old releases
};

// A component that the recipe names.
struct NeededComponent {
  std::string kind;  // "" inside options: only the schema of the outer component defines it
  std::string name;  // a type, or "plugin-id/type"
  std::string pointer;
};

// A recipe after its first phase: read, overridden, expanded, and checked by the host's schema.
class RecipeDraft {
 public:
  RecipeDraft(RecipeDraft&&) noexcept;
  RecipeDraft& operator=(RecipeDraft&&) noexcept;
  RecipeDraft(const RecipeDraft&) = delete;
  RecipeDraft& operator=(const RecipeDraft&) = delete;
  ~RecipeDraft();

  // Returns the components that the recipe names. Without their schemas, every object inside
  // options that has a "type" counts as a component.
  const std::vector<NeededComponent>& components() const;

  // Returns the well-formed entries of "plugins.need".
  const std::vector<PluginNeed>& plugins() const;

  // Returns the absolute path of the file "plugins.trust"; "" if the recipe has none, or an invalid
  // one.
  const std::string& trust() const;

  // Returns the problems of the first phase; finish_recipe() throws them with its own.
  const ProblemList& problems() const;

  // Returns the path of the recipe file, as given.
  const std::string& file() const;

  struct Impl;

 private:
  friend RecipeDraft read_recipe(const RecipeRequest& request);
  friend Recipe finish_recipe(RecipeDraft draft, const ComponentCatalog& catalog);

  explicit RecipeDraft(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Runs the first phase. Throws only if the recipe cannot be checked at all, or has more problems
// than are reported.
//
// Errors   recipe.unreadable, recipe.syntax, recipe.duplicate_key, recipe.too_deep,
//          recipe.too_many_values, recipe.invalid, usage.bad_set
RecipeDraft read_recipe(const RecipeRequest& request);

// Runs the second phase: checks options against the schemas of their components, adds defaults,
// resolves references, and finds contradictions.
//
// Errors   RecipeErrors with every problem of both phases; plugin.bad_schema; errors of the catalog
Recipe finish_recipe(RecipeDraft draft, const ComponentCatalog& catalog);

// Runs both phases, if the catalog exists already.
Recipe load_recipe(const RecipeRequest& request, const ComponentCatalog& catalog);

}  // namespace tenon
