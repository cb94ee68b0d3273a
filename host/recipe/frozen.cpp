// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/frozen.hpp"

#include "host/json/expand.hpp"
#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"
#include "host/recipe/eval_sites.hpp"
#include "host/recipe/recipe_key.hpp"
#include "host/recipe/recipe_sections.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLine = 80;  // most bytes of a list on one line

constexpr char kOptions[] = "options";

// An empty schema, for options: their keys are in alphabetical order, whatever the plugin declares.
const KeySchema kAlphabet = KeySchema();

// The schema of an object's key, which is fixed or chosen by the recipe.
const KeySchema& below(const KeySchema& schema, const std::string& key) {
  const auto properties = schema.find("properties");
  if (properties != schema.end() && properties->contains(key)) {
    return key == kOptions ? kAlphabet : properties->at(key);
  }
  const auto others = schema.find("additionalProperties");
  return others != schema.end() ? *others : kAlphabet;
}

const KeySchema& entries_of(const KeySchema& schema) {
  const auto items = schema.find("items");
  return items != schema.end() ? *items : kAlphabet;
}

// The schema of one dataset, or of an object of datasets by name.
KeySchema by_form(const json& value, const KeySchema& dataset) {
  return is_single_dataset(value) ? dataset : KeySchema{{"additionalProperties", dataset}};
}

// The keys in the order of the schema, then all other keys in alphabetical order.
std::vector<std::string> ordered_keys(const json& object, const KeySchema& schema) {
  std::vector<std::string> keys;
  if (const auto properties = schema.find("properties"); properties != schema.end()) {
    for (const auto& [key, described] : properties->items()) {
      if (object.contains(key)) {
        keys.push_back(key);
      }
    }
  } else if (object.contains("type")) {  // type first, as in any component
    keys.emplace_back("type");
  }
  for (const std::string& key : keys_of(object)) {
    if (std::ranges::find(keys, key) == keys.end()) {
      keys.push_back(key);
    }
  }
  return keys;
}

void escape_strings(json& value) {
  if (value.is_structured()) {
    std::ranges::for_each(value, escape_strings);
  } else if (value.is_string()) {
    value = escape_environment(value.get_ref<const std::string&>());
  }
}

void print(const json& value, std::size_t indent, const KeySchema& schema, std::string& text) {
  if (const auto dataset = schema.find("x-tenon-one-or-named");
      dataset != schema.end() && value.is_object()) {
    print(value, indent, by_form(value, *dataset), text);
    return;
  }
  const std::string margin = "\n" + std::string(indent + 2, ' ');
  const std::string end = "\n" + std::string(indent, ' ');
  std::string_view comma;
  if (value.is_object() && !value.empty()) {
    text += '{';
    for (const std::string& key : ordered_keys(value, schema)) {
      text.append(comma).append(margin).append(json(key).dump()).append(": ");
      print(value.at(key), indent + 2, below(schema, key), text);
      comma = ",";
    }
    text.append(end).append("}");
  } else if (value.is_array() && !value.empty()) {
    std::string line;
    for (const json& entry : value) {
      line += (line.empty() ? "" : ", ") + (entry.is_structured() ? "" : entry.dump());
    }
    const bool is_plain =
        std::ranges::none_of(value, [](const json& entry) { return entry.is_structured(); });
    if (is_plain && line.size() <= kMaxLine) {
      text.append("[").append(line).append("]");
      return;
    }
    text += '[';
    for (const json& entry : value) {
      text.append(comma).append(margin);
      print(entry, indent + 2, entries_of(schema), text);
      comma = ",";
    }
    text.append(end).append("]");
  } else {
    text += value.dump();
  }
}

}  // namespace

std::string print_recipe(const json& recipe, const WrittenStrings& written) {
  json escaped = recipe;
  escape_strings(escaped);
  for (const auto& [pointer, string] : written) {
    *find_at(escaped, pointer) = string;
  }
  std::string text;
  print(escaped, 0, ordered_recipe_schema(), text);
  return text + "\n";
}

std::string expanded_string(const std::string& frozen) {
  const auto parts = split_environment(frozen);
  if (!parts) {
    return frozen;
  }
  const EnvLookup lookup = process_environment();
  std::string text;
  for (const TextPart& part : *parts) {
    text += part.is_variable ? lookup(part.text).value_or("${ENV:" + part.text + "}") : part.text;
  }
  return text;
}

}  // namespace tenon
