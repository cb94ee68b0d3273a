// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/absolute_paths.hpp"

#include "host/error/utf8.hpp"
#include "host/json/schema_visit.hpp"
#include "host/json/schema_words.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <system_error>
#include <utility>

namespace tenon {

using nlohmann::json;

AbsolutePaths::AbsolutePaths(std::filesystem::path folder,
                             const PlaceMap& places,
                             ProblemList& problems)
    : folder_(std::move(folder)), places_(places), problems_(problems) {}

void AbsolutePaths::make_absolute(json& value, const json& schema, const std::string& pointer) {
  visit_schema(
      value, schema, pointer, [this](json& at, const json& rules, const std::string& where) {
        const auto mark = rules.find("x-tenon-path");
        if (at.is_string() && mark != rules.end() && *mark == json(true)) {
          change(at, where);
        }
        return !rules.contains("x-tenon-component");
      });
}

void AbsolutePaths::change(json& text, const std::string& pointer) {
  const auto& path = text.get_ref<const std::string&>();
  if (path.empty() || path.find("://") != std::string::npos) {  // no path, or a remote one
    return;
  }
  std::error_code failure;
  const bool is_set = places_.at(pointer).origin == PlaceOrigin::kSet;
  // The absolute form of "", the folder of "recipe.json", is an error.
  const std::filesystem::path folder = is_set || folder_.empty()
                                           ? std::filesystem::current_path(failure)
                                           : std::filesystem::absolute(folder_, failure);
  std::string absolute = (folder / path).lexically_normal().string();
  // A shell expands ~ at the start of a word only, and not in a recipe.
  if (const bool is_home = path == "~" || path.starts_with("~/");
      is_home && !std::filesystem::exists(folder / "~", failure)) {
    problems_.push_back({.id = "recipe.bad_value",
                         .place = places_.at(pointer),
                         .pointer = pointer,
                         .what = "~ does not stand for the home folder here",
                         .expected = "a path, for example \"${ENV:HOME}" + path.substr(1) + "\"",
                         .found = brief_value(text)});
    return;
  }
  if (!is_utf8(absolute)) {
    problems_.push_back({.id = "recipe.not_utf8",
                         .place = places_.at(pointer),
                         .pointer = pointer,
                         .what = formatted("the folder in which the path starts has a name that is "
                                           "not UTF-8 (byte {})",
                                           invalid_utf8_at(absolute) + 1),
                         .found = brief_value(text)});
    return;
  }
  if (std::filesystem::path(path).is_relative()) {
    folders_.insert_or_assign(pointer, folder.lexically_normal().string());
  }
  text = std::move(absolute);
}

}  // namespace tenon
