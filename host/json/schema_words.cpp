// SPDX-License-Identifier: Apache-2.0

#include "host/json/schema_words.hpp"

#include "host/json/schema_keyword.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {
namespace {

// "auto, cpu, cuda, cuda:N" for "^(auto|cpu|cuda(:[0-9]{1,3})?)$": a list of words, the last of
// which may have a number. "" for any other regular expression.
std::string words_of_pattern(std::string regex) {
  constexpr std::string_view kNumbered = "(:[0-9]{1,3})?)$";
  const bool is_numbered = regex.ends_with(kNumbered);
  if (!regex.starts_with("^(") || !(is_numbered || regex.ends_with(")$"))) {
    return "";
  }
  regex = regex.substr(2, regex.size() - 2 - (is_numbered ? kNumbered.size() : 2));
  const bool has_only_words = std::ranges::all_of(
      regex, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '|'; });
  if (!has_only_words || regex.find('|') == std::string::npos) {
    return "";
  }
  std::string words;
  for (const char c : regex) {
    words += c == '|' ? std::string(", ") : std::string(1, c);
  }
  return is_numbered ? words + ", " + regex.substr(regex.rfind('|') + 1) + ":N" : words;
}

using nlohmann::json;

constexpr std::size_t kMaxShown = 60;  // bytes of a value
constexpr std::size_t kMaxListed = 12;
constexpr std::int64_t kLargestExact = 9007199254740991;  // 2^53 - 1: also exact as a double

// Returns the name of a JSON Schema type as used in messages.
std::string type_name(const json& type) {
  if (!type.is_string()) {
    return "any value";
  }
  const auto& name = type.get_ref<const std::string&>();
  return name == "array" ? "list" : name;
}

// "integer or string". Excludes null, which expected_words() appends at the end.
std::string type_words(const json& types) {
  std::vector<std::string> names;
  for (const json& type : types.is_array() ? types : json::array({types})) {
    if (type != "null" || types.size() == 1) {
      names.push_back(type_name(type));
    }
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text;
}

bool allows_null_too(const json* type) {
  return type != nullptr && type->is_array() && type->size() > 1 &&
         std::ranges::find(*type, json("null")) != type->end();
}

std::string range_words(const json& schema) {
  const json* const minimum = find_keyword(schema, "minimum");
  const json* maximum = find_keyword(schema, "maximum");
  if (maximum != nullptr && *maximum == kLargestExact && minimum != nullptr) {
    maximum = nullptr;  // a technical limit, not one of the option
  }
  const json* const above = find_keyword(schema, "exclusiveMinimum");
  const json* const below = find_keyword(schema, "exclusiveMaximum");
  if (minimum != nullptr && maximum != nullptr) {
    return " from " + brief_value(*minimum) + " to " + brief_value(*maximum);
  }
  std::string text;
  if (minimum != nullptr) {
    text += " of at least " + brief_value(*minimum);
  } else if (above != nullptr && above->is_number()) {
    text += " above " + brief_value(*above);
  }
  const std::string joint = text.empty() ? "" : " and";
  if (maximum != nullptr) {
    text += joint + " of at most " + brief_value(*maximum);
  } else if (below != nullptr && below->is_number()) {
    text += joint + " below " + brief_value(*below);
  }
  return text;
}

std::string count_words(const json& schema, const char* least, const char* most, const char* unit) {
  const json* const minimum = find_keyword(schema, least);
  const json* const maximum = find_keyword(schema, most);
  if (minimum != nullptr && maximum != nullptr && *minimum == *maximum) {
    return " of " + minimum->dump() + " " + unit;
  }
  std::string text;
  if (minimum != nullptr) {
    text += " of at least " + minimum->dump();
  }
  if (maximum != nullptr) {
    text += (text.empty() ? " of at most " : " and at most ") + maximum->dump();
  }
  return text.empty() ? text : text + " " + unit;
}

}  // namespace

std::string brief_value(const json& value) {
  const auto sized = [&value](const char* what, const char* unit) {
    return value.empty() ? formatted("{} without {}", what, unit)
                         : formatted("{} of {} {}", what, value.size(), unit);
  };
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMaxShown) {
    const auto& text = value.get_ref<const std::string&>();
    std::size_t end = kMaxShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
      --end;  // do not split a UTF-8 character
    }
    return formatted("{}... ({} bytes)",
                     json(text.substr(0, end)).dump(-1, ' ', false, json::error_handler_t::replace),
                     text.size());
  }
  if (value.is_structured()) {
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() <= kMaxShown) {
      return text;
    }
    return value.is_array() ? sized("a list", "entries") : sized("an object", "keys");
  }
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string_view type_word(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::boolean:
      return "boolean";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return "integer";
    case json::value_t::number_float:
      return "number";
    case json::value_t::string:
      return "string";
    case json::value_t::array:
      return "list";
    default:
      return "object";
  }
}

std::string expected_words(const json& schema) {
  if (!schema.is_object()) {
    return "any value";
  }
  if (const json* const kind = find_keyword(schema, "x-tenon-component");
      kind != nullptr && kind->is_string()) {
    return "a " + kind->get<std::string>() +
           ": {\"type\": ..., \"options\": {...}} or {\"ref\": \"/path\"}" +
           (allows_null_too(find_keyword(schema, "type")) ? ", or null" : "");
  }
  if (const json* const value = find_keyword(schema, "const")) {
    return brief_value(*value);
  }
  if (const json* const values = find_keyword(schema, "enum");
      values != nullptr && values->is_array()) {
    std::vector<std::string> names;
    for (const json& value : *values) {
      names.push_back(brief_value(value));
    }
    return "one of: " + name_list(names);
  }
  for (const char* const variants : {"oneOf", "anyOf"}) {
    if (const json* const forms = find_keyword(schema, variants);
        forms != nullptr && forms->is_array()) {
      std::string text;
      for (std::size_t i = 0; i < forms->size(); ++i) {
        text += (i == 0 ? "" : ", or ") + expected_words((*forms)[i]);
      }
      return text;
    }
  }
  const json* const type = find_keyword(schema, "type");
  std::string text = type != nullptr ? type_words(*type) : "any value";
  text += range_words(schema);
  text += count_words(schema, "minItems", "maxItems", "entries");
  text += count_words(schema, "minLength", "maxLength", "characters");
  if (const json* const items = find_keyword(schema, "items");
      items != nullptr && items->is_object()) {
    text += ", each " + expected_words(*items);
  }
  if (const json* const pattern = find_keyword(schema, "pattern");
      pattern != nullptr && pattern->is_string()) {
    const std::string regex = pattern->get<std::string>();
    const std::string words = words_of_pattern(regex);
    text += words.empty() ? " matching " + regex : ": " + words;
  }
  return text + (allows_null_too(type) ? ", or null" : "");
}

std::string name_list(const std::vector<std::string>& names) {
  if (names.size() <= kMaxListed + 2) {
    return joined(names);
  }
  const std::vector<std::string> shown(names.begin(), names.begin() + kMaxListed);
  return formatted("{}, ... ({} in all)", joined(shown), names.size());
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  if (object.is_object()) {
    for (const auto& [key, value] : object.items()) {
      keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace tenon
