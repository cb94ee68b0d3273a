// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_loader.hpp"

#include "host/error/assert.hpp"
#include "host/json/json_path.hpp"
#include "host/json/json_source.hpp"
#include "host/json/override.hpp"
#include "host/json/schema_check.hpp"
#include "host/json/schema_defaults.hpp"
#include "host/json/schema_words.hpp"
#include "host/json/written_text.hpp"
#include "host/recipe/component_check.hpp"
#include "host/recipe/component_sites.hpp"
#include "host/recipe/contradiction.hpp"
#include "host/recipe/eval_sites.hpp"
#include "host/recipe/foreign_keys.hpp"
#include "host/recipe/old_names.hpp"
#include "host/recipe/recipe_build.hpp"
#include "host/recipe/recipe_schema.hpp"
#include "host/recipe/recipe_sections.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

namespace tenon {

using nlohmann::json;

struct RecipeDraft::Impl {
  RecipeRequest request;
  json root;
  PlaceMap places;
  ProblemList problems;
  ExpandedStrings strings;
  std::vector<NeededComponent> components;
  std::vector<PluginNeed> plugins;
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

void list_components(Draft& draft) {
  for (const ComponentSite& site : component_sites(draft.root)) {
    const json& node = *find_at(draft.root, site.pointer);
    const auto type = node.find("type");
    if (type != node.end() && type->is_string()) {
      draft.components.push_back(
          {.kind = site.kind, .name = type->get<std::string>(), .pointer = site.pointer});
    }
    if (const auto options = node.find("options"); options != node.end()) {
      for (const auto& [key, value] : options->items()) {
        add_nested_components(value, join_pointer(site.pointer + "/options", key), draft);
      }
    }
    const auto groups = node.find("groups");
    if (site.kind == "optimizer" && groups != node.end() && groups->is_array()) {
      for (std::size_t i = 0; i < groups->size(); ++i) {
        const json& group = (*groups)[i];
        if (group.is_object() && group.contains("type") && group["type"].is_string()) {
          draft.components.push_back({.kind = "optimizer",
                                      .name = group["type"].get<std::string>(),
                                      .pointer = join_pointer("/optimizer/groups", i)});
        }
      }
    }
  }
}

void list_plugins(Draft& draft) {
  const json* const needs = find_at(draft.root, "/plugins/need");
  if (needs == nullptr || !needs->is_array()) {
    return;
  }
  for (std::size_t i = 0; i < needs->size(); ++i) {
    const std::string pointer = join_pointer("/plugins/need", i);
    const bool is_good = std::ranges::none_of(
        draft.problems.kept(),
        [&pointer](const Problem& problem) { return problem.pointer == pointer; });
    if (is_good && (*needs)[i].is_string()) {
      PluginNeed& need =
          draft.plugins.emplace_back(parse_need((*needs)[i].get<std::string>(), pointer));
      need.place = draft.places.at(pointer);
    }
  }
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
  return impl_->plugins;
}
std::string RecipeDraft::trust() const {
  const json* const file = find_at(impl_->root, "/plugins/trust");
  if (file == nullptr || !file->is_string()) {
    return "";
  }
  const std::filesystem::path folder = std::filesystem::path(impl_->request.path).parent_path();
  return (folder / file->get<std::string>()).string();
}
const ProblemList& RecipeDraft::problems() const {
  return impl_->problems;
}
const std::string& RecipeDraft::file() const {
  return impl_->request.path;
}

RecipeDraft read_recipe(const RecipeRequest& request) {
  auto impl = std::make_unique<Draft>();
  Draft& draft = *impl;
  draft.request = request;
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
  for (const EvalSite& site : eval_sites(draft.root)) {
    const json& node = *find_at(draft.root, site.pointer);
    check_schema(node, dataset_schema(), site.pointer, draft.places, draft.problems);
  }
  throw_if_full(draft);
  point_to_own_keys(draft.problems);
  apply_defaults(draft.root, recipe_schema(), "", draft.places);
  for (const EvalSite& site : eval_sites(draft.root)) {
    json& node = *find_at(draft.root, site.pointer);
    apply_defaults(node, dataset_schema(), site.pointer, draft.places);
  }
  list_components(draft);
  list_plugins(draft);
  show_as_written(draft.problems, draft.root, draft.strings);
  return RecipeDraft(std::move(impl));
}

Recipe finish_recipe(RecipeDraft done, const ComponentCatalog& catalog) {
  TENON_ASSERT(done.impl_ != nullptr, "a draft is finished once");
  Draft& draft = *done.impl_;
  const std::filesystem::path folder = std::filesystem::path(draft.request.path).parent_path();
  ComponentChecker checker(catalog, folder, draft.places, draft.problems);
  std::map<std::string, ComponentUse> uses;
  for (const ComponentSite& site : component_sites(draft.root)) {
    uses.emplace(site.pointer,
                 checker.check(site.kind, *find_at(draft.root, site.pointer), site.pointer));
    throw_if_full(draft);
  }
  std::vector<CheckedGroup> groups;
  const json* const group_nodes = find_at(draft.root, "/optimizer/groups");
  if (group_nodes != nullptr && group_nodes->is_array()) {
    for (std::size_t i = 0; i < group_nodes->size(); ++i) {
      groups.push_back(checker.check_group((*group_nodes)[i],
                                           join_pointer("/optimizer/groups", i),
                                           uses.at("/optimizer"),
                                           draft.root["optimizer"]));
      throw_if_full(draft);
    }
  }
  checker.check_refs();
  check_contradictions(draft.root, draft.places, draft.problems);
  // Affects only the host's own paths: the recipe schema does not cover the options of components.
  checker.make_paths_absolute(draft.root, recipe_schema(), "");
  if (!draft.problems.empty()) {
    throw_problems(draft);
  }
  Recipe recipe = build_recipe(std::move(draft.root),
                               {.path = draft.request.path,
                                .compute_threads = draft.request.compute_threads,
                                .uses = std::move(uses),
                                .groups = std::move(groups),
                                .refs = checker.refs(),
                                .strings = std::move(draft.strings),
                                .folders = checker.folders()});
  recipe.needs = std::move(draft.plugins);
  return recipe;
}

Recipe load_recipe(const RecipeRequest& request, const ComponentCatalog& catalog) {
  return finish_recipe(read_recipe(request), catalog);
}

}  // namespace tenon
