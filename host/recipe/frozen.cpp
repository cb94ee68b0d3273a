// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/frozen.hpp"

#include "host/json/expand.hpp"
#include "host/json/json_path.hpp"
#include "host/json/one_or_named.hpp"
#include "host/json/schema_words.hpp"
#include "host/recipe/recipe_key.hpp"
#include "host/recipe/recipe_sections.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
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

// The schema of one object, or of such objects by name.
KeySchema by_form(const json& value, const KeySchema& keyword) {
  return is_one(value, keyword.at("keys_of_one").get<std::vector<std::string>>())
             ? keyword.at("one")
             : KeySchema{{"additionalProperties", keyword.at("one")}};
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

class Printer {
 public:
  explicit Printer(const WrittenStrings& written) : written_(written) {}

  std::string take() { return std::move(text_); }

  void print(const json& value,
             const std::string& pointer,
             std::size_t indent,
             const KeySchema& schema) {
    if (const auto keyword = schema.find("x-tenon-one-or-named");
        keyword != schema.end() && value.is_object()) {
      print(value, pointer, indent, by_form(value, *keyword));
    } else if (value.is_object() && !value.empty()) {
      print_object(value, pointer, indent, schema);
    } else if (value.is_array() && !value.empty()) {
      print_list(value, pointer, indent, schema);
    } else {
      text_ += plain(value, pointer);
    }
  }

 private:
  void print_object(const json& object,
                    const std::string& pointer,
                    std::size_t indent,
                    const KeySchema& schema) {
    std::string_view comma = "{";
    for (const std::string& key : ordered_keys(object, schema)) {
      text_.append(comma).append(margin(indent + 2)).append(json(key).dump()).append(": ");
      print(object.at(key), join_pointer(pointer, key), indent + 2, below(schema, key));
      comma = ",";
    }
    text_.append(margin(indent)).append("}");
  }

  void print_list(const json& list,
                  const std::string& pointer,
                  std::size_t indent,
                  const KeySchema& schema) {
    const bool is_plain =
        std::ranges::none_of(list, [](const json& entry) { return entry.is_structured(); });
    std::string line;
    for (std::size_t i = 0; is_plain && i < list.size(); ++i) {
      line += (i > 0 ? ", " : "") + plain(list[i], join_pointer(pointer, i));
    }
    if (is_plain && line.size() <= kMaxLine) {
      text_.append("[").append(line).append("]");
      return;
    }
    std::string_view comma = "[";
    for (std::size_t i = 0; i < list.size(); ++i) {
      text_.append(comma).append(margin(indent + 2));
      print(list[i], join_pointer(pointer, i), indent + 2, entries_of(schema));
      comma = ",";
    }
    text_.append(margin(indent)).append("]");
  }

  // A string as the user wrote it, or with "${" escaped; any other value as JSON.
  std::string plain(const json& value, const std::string& pointer) const {
    if (!value.is_string()) {
      return value.dump();
    }
    const auto written = written_.find(pointer);
    return json(written != written_.end() ? written->second
                                          : escape_environment(value.get_ref<const std::string&>()))
        .dump();
  }

  static std::string margin(std::size_t indent) { return "\n" + std::string(indent, ' '); }

  const WrittenStrings& written_;
  std::string text_;
};

}  // namespace

std::string print_recipe(const json& recipe, const WrittenStrings& written) {
  Printer printer(written);
  printer.print(recipe, "", 0, ordered_recipe_schema());
  return printer.take() + "\n";
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
