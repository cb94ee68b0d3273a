// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_loader.hpp"

#include "host/error/assert.hpp"
#include "host/json/json_path.hpp"
#include "host/json/json_source.hpp"
#include "host/json/override.hpp"
#include "host/json/schema_check.hpp"
#include "host/json/schema_words.hpp"
#include "host/json/written_text.hpp"
#include "host/recipe/absolute_paths.hpp"
#include "host/recipe/component_check.hpp"
#include "host/recipe/foreign_keys.hpp"
#include "host/recipe/old_names.hpp"
#include "host/recipe/recipe_defaults.hpp"
#include "host/recipe/recipe_freeze.hpp"
#include "host/recipe/recipe_rules.hpp"
#include "host/recipe/recipe_schema.hpp"
#include "host/recipe/recipe_sections.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace tenon {

using nlohmann::json;

struct RecipeDraft::Impl {
  explicit Impl(RecipeRequest wanted)
      : request(std::move(wanted)),
        paths(std::filesystem::path(request.path).parent_path(), places, problems) {}

  RecipeRequest request;
  json root;
  PlaceMap places;
  ProblemList problems;
  ExpandedStrings strings;
  AbsolutePaths paths;
  std::optional<BoundKeys> keys;  // of `recipe`, which is as bound until finish_recipe()
  Recipe recipe;
  std::vector<NeededComponent> components;
};

namespace {

using Draft = RecipeDraft::Impl;

void add_nested_components(const json& value, const std::string& pointer, Draft& draft) {
  if (value.is_object() && value.contains("type") && value["type"].is_string()) {
    draft.components.push_back(
        {.kind = "", .name = value["type"].get<std::string>(), .pointer = pointer});
  }
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      add_nested_components(child, join_pointer(pointer, key), draft);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      add_nested_components(value[i], join_pointer(pointer, i), draft);
    }
  }
}

[[noreturn]] void throw_problems(Draft& draft) {
  point_to_own_keys(draft.problems);
  show_as_written(draft.problems, draft.root, draft.strings);
  throw RecipeErrors(draft.request.path, draft.problems);
}

// Ends the checks of a recipe if no further problem is reported. The time of all checks grows with
// the recipe.
void throw_if_full(Draft& draft) {
  if (draft.problems.is_full()) {
    throw_problems(draft);
  }
}

// Removes the fingerprints of the run that wrote the recipe; finish_recipe() adds those of now.
void drop_fingerprints(Draft& draft) {
  constexpr const char* kKey = "environment";
  if (const auto found = draft.root.find(kKey); found != draft.root.end()) {
    check_schema(*found,
                 recipe_schema().at("properties").at(kKey),
                 join_pointer("", kKey),
                 draft.places,
                 draft.problems);
    draft.root.erase(found);
  }
}

constexpr std::string_view kGroups = "/optimizer/groups";

// Groups of the optimizer inherit options, so they are checked with the optimizer.
bool is_group(const ComponentUse& use) {
  return is_at_or_below(use.pointer, kGroups);
}

void list_components(Draft& draft) {
  fill_each_component(draft.recipe, [&draft](ComponentUse& use) {
    draft.components.push_back({.kind = use.kind, .name = use.type, .pointer = use.pointer});
    const std::string pointer = join_pointer(use.pointer, "options");
    const json* const options = find_at(draft.root, pointer);
    if (options != nullptr && !is_group(use)) {
      for (const auto& [key, value] : options->items()) {
        add_nested_components(value, join_pointer(pointer, key), draft);
      }
    }
  });
}

void bind(Draft& draft) {
  Recipe& recipe = draft.recipe;
  draft.keys.emplace(draft.places, draft.problems);
  read_sections(draft.root, *draft.keys, recipe);
  recipe.file = draft.request.path;
  std::erase_if(recipe.needs, [](const PluginNeed& need) { return need.id.empty(); });
}

// Checks the components of the recipe, and completes them. Returns the optimizer's groups.
std::vector<CheckedGroup> check_components(Draft& draft, ComponentChecker& checker) {
  fill_each_component(draft.recipe, [&](ComponentUse& use) {
    if (!is_group(use)) {
      use = checker.check(use.kind, *find_at(draft.root, use.pointer), use.pointer);
      throw_if_full(draft);
    }
  });
  OptimizerRecipe& optimizer = draft.recipe.optimizer;
  ComponentUse base = optimizer.use;
  base.kind = "optimizer";  // also if it has no type
  std::vector<CheckedGroup> groups;
  for (std::size_t i = 0; i < optimizer.groups.size(); ++i) {
    const std::string pointer = join_pointer(kGroups, i);
    groups.push_back(
        checker.check_group(*find_at(draft.root, pointer), pointer, base, draft.root["optimizer"]));
    optimizer.groups[i].use = groups.back().use;
    throw_if_full(draft);
  }
  return groups;
}

// Separates the trained model from the others. With the short form "model", all others are named.
void choose_trained(const BoundKeys& keys, Recipe& recipe) {
  if (keys.has("/model")) {
    return;
  }
  const auto trained = std::ranges::find(recipe.further_models, true, &ModelUse::is_trained);
  recipe.model = std::move(*trained);
  recipe.further_models.erase(trained);
}

}  // namespace

RecipeDraft::RecipeDraft(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecipeDraft::RecipeDraft(RecipeDraft&&) noexcept = default;
RecipeDraft& RecipeDraft::operator=(RecipeDraft&&) noexcept = default;
RecipeDraft::~RecipeDraft() = default;

const std::vector<NeededComponent>& RecipeDraft::components() const {
  return impl_->components;
}
const std::vector<PluginNeed>& RecipeDraft::plugins() const {
  return impl_->recipe.needs;
}
const std::string& RecipeDraft::trust() const {
  return impl_->recipe.trust;
}
const ProblemList& RecipeDraft::problems() const {
  return impl_->problems;
}
const std::string& RecipeDraft::file() const {
  return impl_->request.path;
}

RecipeDraft read_recipe(const RecipeRequest& request) {
  auto impl = std::make_unique<Draft>(request);
  Draft& draft = *impl;
  draft.root = parse_json(read_recipe_text(request.path), request.path, draft.places);
  if (!draft.root.is_object()) {
    throw RecipeErrors(
        request.path,
        {{.id = "recipe.wrong_type",
          .place = draft.places.at(""),
          .pointer = "",
          .what = "wrong type",
          .expected = "an object: {\"model\": ..., \"data\": ..., ...}",
          .found = std::string(type_word(draft.root)) + " " + brief_value(draft.root)}});
  }
  if (request.takes_old_names) {
    replace_old_names(draft.root);
  }
  int number = 0;
  for (const std::string& set : request.sets) {
    apply_override(set, ++number, draft.root, draft.places, draft.problems);
  }
  drop_fingerprints(draft);
  draft.strings = expand_environment(draft.root, request.environment, draft.places, draft.problems);
  check_schema(draft.root, recipe_schema(), "", draft.places, draft.problems);
  throw_if_full(draft);
  point_to_own_keys(draft.problems);
  complete_recipe(draft.root, draft.places, request.path, request.compute_threads);
  draft.paths.make_absolute(draft.root, recipe_schema(), "");
  bind(draft);
  list_components(draft);
  show_as_written(draft.problems, draft.root, draft.strings);
  return RecipeDraft(std::move(impl));
}

Recipe finish_recipe(RecipeDraft done, const ComponentCatalog& catalog) {
  TENON_ASSERT(done.impl_ != nullptr, "a draft is finished once");
  Draft& draft = *done.impl_;
  ComponentChecker checker(catalog, draft.paths, draft.places, draft.problems);
  const std::vector<CheckedGroup> groups = check_components(draft, checker);
  checker.check_refs();
  check_rules(draft.recipe, *draft.keys, draft.problems);
  if (!draft.problems.empty()) {
    throw_problems(draft);
  }
  choose_trained(*draft.keys, draft.recipe);
  draft.recipe.frozen = freeze_recipe(draft.root,
                                      {.groups = groups,
                                       .refs = checker.refs(),
                                       .strings = draft.strings,
                                       .folders = draft.paths.folders()});
  return std::move(draft.recipe);
}

Recipe load_recipe(const RecipeRequest& request, const ComponentCatalog& catalog) {
  return finish_recipe(read_recipe(request), catalog);
}

}  // namespace tenon
