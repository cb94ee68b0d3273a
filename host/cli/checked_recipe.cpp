// SPDX-License-Identifier: Apache-2.0

#include "host/cli/checked_recipe.hpp"

#include "host/cli/registry_catalog.hpp"
#include "host/text/nearest_name.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// The numbers of "1.2.3". The text is already validated; missing numbers are 0.
struct Version {
  std::array<std::int64_t, 3> parts{};
  std::size_t num_given = 0;
};

Version parse_version(const std::string& text) {
  Version version;
  std::istringstream stream(text);
  for (std::string part; version.num_given < 3 && std::getline(stream, part, '.');) {
    std::istringstream(part) >> version.parts[version.num_given++];
  }
  return version;
}

// "== 1.2" matches every 1.2.x.
bool is_fulfilled(const PluginNeed& need, const std::string& version) {
  const Version wanted = parse_version(need.version);
  Version found = parse_version(version);
  if (need.relation.empty()) {
    return true;
  }
  if (need.relation == ">=") {
    return found.parts >= wanted.parts;
  }
  for (std::size_t i = wanted.num_given; i < found.parts.size(); ++i) {
    found.parts[i] = 0;
  }
  return found.parts == wanted.parts;
}

std::optional<Problem> judge(const PluginNeed& need, const PluginRegistry& registry) {
  const PluginInfo* const plugin = registry.find_plugin(need.id);
  const std::string wanted =
      need.id + (need.relation.empty() ? "" : " " + need.relation + " " + need.version);
  if (plugin == nullptr) {
    std::vector<std::string> ids;
    for (const PluginInfo& other : registry.plugins()) {
      ids.push_back(other.manifest.id);
    }
    return Problem{.id = "recipe.plugin_missing",
                   .place = need.place,
                   .pointer = need.pointer,
                   .what = "a required plugin is missing",
                   .expected = wanted + " in " + registry.describe_folders(),
                   .hint = did_you_mean(need.id, ids)};
  }
  if (!is_fulfilled(need, plugin->manifest.version)) {
    return Problem{.id = "recipe.plugin_missing",
                   .place = need.place,
                   .pointer = need.pointer,
                   .what = "a plugin that is needed is there in another version",
                   .expected = wanted,
                   .found = plugin->describe()};
  }
  if (plugin->refusal) {
    throw plugin->refusal->with_context("the recipe needs plugin " + wanted);
  }
  return std::nullopt;
}

}  // namespace

Recipe check_recipe(RecipeDraft draft, PluginRegistry& registry) {
  ProblemList unmet;
  for (const PluginNeed& need : draft.plugins()) {
    if (unmet.is_full()) {
      break;
    }
    if (std::optional<Problem> problem = judge(need, registry)) {
      unmet.push_back(*std::move(problem));
    }
  }
  const std::string file = draft.file();
  ProblemList all;
  try {
    Recipe recipe = finish_recipe(std::move(draft), RegistryCatalog(registry));
    if (unmet.empty()) {
      return recipe;
    }
  } catch (const RecipeErrors& errors) {
    for (const Problem& problem : errors.problems()) {
      all.push_back(problem);
    }
  }
  all.append(std::move(unmet));
  throw RecipeErrors(file, all);
}

}  // namespace tenon
