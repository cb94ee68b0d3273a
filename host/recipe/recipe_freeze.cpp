// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_freeze.hpp"

#include "host/json/expand.hpp"
#include "host/json/json_path.hpp"
#include "host/recipe/frozen.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

// Converts a pointer into the recipe as written to a pointer into its long form.
std::string long_pointer(const json& root, const std::string& pointer) {
  if (root.contains("model") && is_at_or_below(pointer, "/model")) {
    return "/models/main" + pointer.substr(std::string_view("/model").size());
  }
  if (root.contains("loss") && is_at_or_below(pointer, "/loss")) {
    return "/losses/0" + pointer.substr(std::string_view("/loss").size());
  }
  return pointer;
}

// The complete recipe in its long form.
json long_form(const json& root, const FreezeParts& parts) {
  json result = root;
  result.erase("$schema");  // may be relative to the folder of the recipe file
  for (std::size_t i = 0; i < parts.groups.size(); ++i) {
    json group = *parts.groups[i].frozen;
    group["match"] = root["optimizer"]["groups"][i]["match"];
    group["type"] = parts.groups[i].use.type;
    result["optimizer"]["groups"][i] = std::move(group);
  }
  for (const ComponentRef& ref : parts.refs) {
    // A reference that a group inherits from its optimizer is not written in the group.
    if (json* const node = find_at(result, ref.pointer)) {
      (*node)["ref"] = long_pointer(root, ref.target);
    }
  }
  if (result.contains("model")) {
    result["models"]["main"] = std::move(result["model"]);
    result.erase("model");
  }
  if (result.contains("loss")) {
    result["losses"] = json::array({std::move(result["loss"])});
    result.erase("loss");
  }
  return result;
}

// The strings with variables, as the user wrote them, by pointer into the long form.
WrittenStrings written_strings(const json& root, const json& long_root, const FreezeParts& parts) {
  WrittenStrings written;
  for (const auto& [pointer, string] : parts.strings.by_pointer) {
    const bool is_ref = std::ranges::any_of(parts.refs, [&pointer](const ComponentRef& ref) {
      return pointer == join_pointer(ref.pointer, "ref");
    });
    std::string at = long_pointer(root, pointer);
    const json* node = find_at(long_root, at);
    if (node != nullptr && node->is_array()) {  // "from" of a feature
      at = join_pointer(at, 0);
      node = find_at(long_root, at);
    }
    if (node == nullptr || !node->is_string() || is_ref || at == "/name") {
      continue;  // the name of a run is that of its folder
    }
    const auto folder = parts.folders.find(pointer);
    const std::string start =
        folder != parts.folders.end() ? escape_environment(folder->second) + "/" : "";
    written.emplace(at, start + string.written);
  }
  return written;
}

// The fingerprints of the variables in these strings, by name.
std::map<std::string, std::string> fingerprints_of(const WrittenStrings& written,
                                                   const ExpandedStrings& strings) {
  std::map<std::string, std::string> fingerprints;
  for (const auto& [pointer, string] : written) {
    for (const TextPart& part : split_environment(string).value_or(std::vector<TextPart>())) {
      if (part.is_variable) {
        fingerprints.emplace(part.text, strings.fingerprints.at(part.text));
      }
    }
  }
  return fingerprints;
}

}  // namespace

std::string freeze_recipe(const json& root, const FreezeParts& parts) {
  json frozen = long_form(root, parts);
  const WrittenStrings written = written_strings(root, frozen, parts);
  if (auto fingerprints = fingerprints_of(written, parts.strings); !fingerprints.empty()) {
    frozen["environment"] = std::move(fingerprints);
  }
  return print_recipe(frozen, written);
}

}  // namespace tenon
