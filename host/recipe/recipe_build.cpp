// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_build.hpp"

#include "host/json/expand.hpp"
#include "host/json/json_path.hpp"
#include "host/json/schema_visit.hpp"
#include "host/recipe/contradiction.hpp"
#include "host/recipe/eval_sites.hpp"
#include "host/recipe/frozen.hpp"
#include "host/recipe/recipe_schema.hpp"
#include "host/recipe/recipe_sections.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

// Removes the keys of a single dataset, and adds those of a mix.
void complete_mix(json& dataset) {
  dataset.erase("options");
  if (!dataset.contains("when_one_ends")) {
    dataset["when_one_ends"] = "repeat";
  }
  for (std::size_t i = 0; i < dataset["mix"].size(); ++i) {
    json& entry = dataset["mix"][i];
    if (!entry.contains("name")) {
      entry["name"] = mix_name(entry["type"].get<std::string>(), i);
    }
  }
}

// Adds the defaults that follow from other keys or from the machine, which the schema cannot state.
// `root` has passed every check; afterwards it is complete.
void complete(json& root, const RecipeParts& parts) {
  if (!root.contains("name")) {
    root["name"] = as_name(std::filesystem::path(parts.path).stem().string());
  }
  json& compute = root["threads"]["compute"];
  if (compute.is_null()) {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    compute = parts.compute_threads > 0 ? parts.compute_threads : cores;
  }
  json& train = root["train"];
  if (!train["global_batch_size"].is_null() || !train["global_batch_tokens"].is_null()) {
    train["gradient_accumulation"] = nullptr;
  } else if (train["gradient_accumulation"].is_null()) {
    train["gradient_accumulation"] = 1;
  }
  visit_schema(root, recipe_schema(), "", [](json& value, const json& schema, const std::string&) {
    const auto meaning = schema.find("x-tenon-null");
    if (value.is_null() && meaning != schema.end()) {
      value = *meaning;
    }
    return true;
  });
  if (root["data"]["eval"].is_null()) {
    root["eval"]["at_end"] = false;
  }
  const auto give_name = [](json& node) {
    if (!node.contains("name")) {
      node["name"] = default_name(node["type"].get<std::string>());
    }
  };
  if (root.contains("loss")) {
    give_name(root["loss"]);
  } else {
    std::ranges::for_each(root["losses"], give_name);
  }
  std::ranges::for_each(root["metrics"], give_name);
  for (json& feature : root["features"]) {
    if (feature["from"].is_string()) {
      feature["from"] = json::array({feature["from"]});
    }
  }
  for (const std::string& pointer : dataset_pointers(root)) {
    if (json& dataset = *find_at(root, pointer); dataset.contains("mix")) {
      complete_mix(dataset);
    }
  }
}

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
json long_form(const json& root, const RecipeParts& parts) {
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
WrittenStrings written_strings(const json& root, const json& long_root, const RecipeParts& parts) {
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

// Separates the trained model from the others. With the short form "model", all others are named.
void choose_trained(const json& root, Recipe& recipe) {
  if (root.contains("model")) {
    return;
  }
  const auto trained = std::ranges::find(recipe.further_models, true, &ModelUse::is_trained);
  recipe.model = std::move(*trained);
  recipe.further_models.erase(trained);
}

}  // namespace

Recipe build_recipe(json root, const RecipeParts& parts) {
  complete(root, parts);
  std::map<std::string, ComponentUse> components = parts.uses;
  for (std::size_t i = 0; i < parts.groups.size(); ++i) {
    components.emplace(join_pointer("/optimizer/groups", i), parts.groups[i].use);
  }
  Recipe recipe;
  read_sections(root, components, recipe);
  choose_trained(root, recipe);
  recipe.file = parts.path;
  json frozen = long_form(root, parts);
  const WrittenStrings written = written_strings(root, frozen, parts);
  if (auto fingerprints = fingerprints_of(written, parts.strings); !fingerprints.empty()) {
    frozen["environment"] = std::move(fingerprints);
  }
  recipe.frozen = print_recipe(frozen, written);
  return recipe;
}

}  // namespace tenon
