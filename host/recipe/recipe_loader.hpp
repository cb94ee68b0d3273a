// SPDX-License-Identifier: Apache-2.0
//
// From a recipe file, --set and the environment to a Recipe, in two phases: the recipe names the
// plugins to load, and the plugins say how to check it. read_recipe() does what needs no plugin,
// finish_recipe() the rest. Problems of both are reported together.

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
  std::string path;                    // shown in messages as it is given
  std::vector<std::string> sets = {};  // "train.steps=10", in the order of the command line
  int compute_threads = 0;             // if the recipe says nothing; 0: one per core
  EnvLookup environment = process_environment();
  bool takes_old_names = false;  // for the recipe of a checkpoint, which an earlier release wrote
};

// A component that the recipe names.
struct NeededComponent {
  std::string kind;  // "" inside options, where only the schema of the outer one can tell
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

  // The components it names, as far as known without their schemas: inside options, every object
  // with a "type" counts as one.
  const std::vector<NeededComponent>& components() const;

  // The well-formed entries of "plugins.need".
  const std::vector<PluginNeed>& plugins() const;

  // The problems so far; finish_recipe() throws these and its own.
  const std::vector<Problem>& problems() const;

  // The recipe file, as it was named.
  const std::string& file() const;

  struct Impl;

 private:
  friend RecipeDraft read_recipe(const RecipeRequest& request);
  friend Recipe finish_recipe(RecipeDraft draft, const ComponentCatalog& catalog);

  explicit RecipeDraft(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// The first phase. Throws only if there is nothing left to check.
//
// Errors   recipe.unreadable, recipe.syntax, recipe.duplicate_key, recipe.too_deep, usage.bad_set
RecipeDraft read_recipe(const RecipeRequest& request);

// The second phase: checks options by the schemas of their components, adds defaults, resolves
// references, and finds contradictions.
//
// Errors   RecipeErrors with every problem of both phases; plugin.bad_schema; what the catalog
//          throws
Recipe finish_recipe(RecipeDraft draft, const ComponentCatalog& catalog);

// Both phases, if the catalog exists already.
Recipe load_recipe(const RecipeRequest& request, const ComponentCatalog& catalog);

}  // namespace tenon
