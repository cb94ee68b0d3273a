// SPDX-License-Identifier: Apache-2.0

#include "host/tools/docs/option_markdown.hpp"

#include "host/tools/docs/json_text.hpp"
#include "host/tools/docs/schema_rows.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// Limits from here on only keep arithmetic in range, so the table omits them.
constexpr double kLimitOfInterest = 1e9;

std::string code(const std::string& text) {
  return "`" + text + "`";
}

// A type in words, in two parts so that the noun can be made plural: "integer", " ≥ 1".
struct Words {
  std::string noun;
  std::string rest;

  std::string text() const { return noun + rest; }
};

const Json* number_at(const Json& schema, const char* name) {
  const Json* const limit = schema_keyword(schema, name);
  return limit != nullptr && limit->is_number() && std::abs(limit->get<double>()) < kLimitOfInterest
             ? limit
             : nullptr;
}

std::string interval_text(const Json& schema) {
  const Json* const least = number_at(schema, "minimum");
  const Json* const above = number_at(schema, "exclusiveMinimum");
  const Json* const most = number_at(schema, "maximum");
  const Json* const below = number_at(schema, "exclusiveMaximum");
  const Json* const low = least != nullptr ? least : above;
  const Json* const high = most != nullptr ? most : below;
  if (low != nullptr && high != nullptr) {
    return std::string(" in ") + (low == least ? "[" : "(") + dumped(*low) + ", " + dumped(*high) +
           (high == most ? "]" : ")");
  }
  if (low != nullptr) {
    return (low == least ? " ≥ " : " > ") + dumped(*low);
  }
  if (high != nullptr) {
    return (high == most ? " ≤ " : " < ") + dumped(*high);
  }
  return "";
}

// "2 " if a list has exactly 2 entries; "" if the number varies.
std::string length_of(const Json& list) {
  const Json* const least = number_at(list, "minItems");
  const Json* const most = number_at(list, "maxItems");
  return least != nullptr && most != nullptr && *least == *most ? dumped(*least) + " " : "";
}

// Choices are formatted as code and have no plural.
std::string plural(const std::string& noun) {
  return noun.ends_with('`') ? noun : noun + "s";
}

std::vector<Words> forms_of(const Json& given, const Json& root, int depth = 0);

Words words_of(const std::string& type, const Json& schema, const Json& root, int depth) {
  const Json* const component = schema_keyword(schema, "x-tenon-component");
  if (type == "object" && component != nullptr && component->is_string()) {
    return {component->get<std::string>() + " component", ""};
  }
  if (type == "string" && schema.value("x-tenon-path", Json(false)) == true) {
    return {"path", ""};
  }
  if (type == "array") {
    const Json* const items = schema_keyword(schema, "items");
    const auto forms = items != nullptr && items->is_object() ? forms_of(*items, root, depth + 1)
                                                              : std::vector<Words>();
    return {"list",
            forms.size() == 1 ? " of " + length_of(schema) + plural(forms[0].noun) + forms[0].rest
                              : ""};
  }
  return {type, type == "integer" || type == "number" ? interval_text(schema) : ""};
}

// The forms of a value, null last.
std::vector<Words> forms_of(const Json& given, const Json& root, int depth) {
  const Json& schema = resolved_schema(given, root);
  std::vector<Words> forms;
  if (!schema.is_object() || depth > kMaxSchemaDepth) {
    return forms;
  }
  const auto add = [&forms](const Words& words) {
    const auto same = [&words](const Words& other) { return other.text() == words.text(); };
    if (std::ranges::none_of(forms, same)) {
      forms.push_back(words);
    }
  };
  for (const char* const variants : {"anyOf", "oneOf"}) {
    const Json* const list = schema_keyword(schema, variants);
    if (list != nullptr && list->is_array()) {
      for (const Json& form : *list) {
        std::ranges::for_each(forms_of(form, root, depth + 1), add);
      }
    }
  }
  const Json* const values = schema_keyword(schema, "enum");
  Json types = schema.value("type", Json::array());
  if (types.is_string()) {
    types = Json::array({types});
  }
  if (values != nullptr && values->is_array()) {
    Words choices;
    bool has_null = false;
    for (const Json& value : *values) {
      has_null |= value.is_null();
      if (!value.is_null()) {
        choices.noun += (choices.noun.empty() ? "" : ", ") + code(plain(value));
      }
    }
    add(choices);
    if (has_null) {
      add({"null", ""});
    }
  } else {
    for (const Json& type : types) {
      add(words_of(plain(type), schema, root, depth));
    }
  }
  std::ranges::stable_partition(forms, [](const Words& form) { return form.noun != "null"; });
  return forms;
}

std::string type_cell(const Json& schema, const Json& root) {
  std::string text;
  for (const Words& form : forms_of(schema, root)) {
    text += (text.empty() ? "" : " or ") + form.text();
  }
  return text.empty() ? "any" : text;
}

// Escapes text for a cell of a Markdown table.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  }
  return result;
}

std::string default_cell(const SchemaRow& row) {
  const Json* const value =
      row.schema->is_object() ? schema_keyword(*row.schema, "default") : nullptr;
  if (value == nullptr) {
    return row.is_required ? "required" : "";
  }
  return code(dumped(*value));
}

// The subject of a key that this release does not support, and the values that it still accepts.
std::string unavailable_cell(const Json& mark) {
  std::string text = mark.value("what", std::string());
  const auto unless = mark.find("unless");
  if (unless != mark.end() && !unless->empty()) {
    text += "; " + code(dumped(unless->at(0)));
    if (unless->size() > 1) {
      text += " or " + code(dumped(unless->at(1)));
    }
    text += std::string(unless->size() > 2 ? " and the like" : "") + " may be written";
  }
  return text;
}

bool is_wanted(const SchemaRow& row, const std::vector<std::string>& keys) {
  return keys.empty() ||
         std::ranges::find(keys, row.path.substr(0, row.path.find_first_of(".["))) != keys.end();
}

}  // namespace

std::string option_markdown(const Json& schema,
                            const std::string& what,
                            const std::vector<std::string>& keys) {
  std::string text;
  for (const SchemaRow& row : schema_rows(schema)) {
    if (!is_wanted(row, keys)) {
      continue;
    }
    const Json* const mark =
        row.schema->is_object() ? schema_keyword(*row.schema, "x-tenon-unavailable") : nullptr;
    const std::string start = "| " + code(row.path) + " | ";
    text += mark != nullptr
                ? start + "not yet |  | " + escaped(unavailable_cell(*mark)) + " |\n"
                : start + escaped(type_cell(*row.given, schema)) + " | " +
                      escaped(default_cell(row)) + " | " + escaped(schema_doc(row)) + " |\n";
  }
  return text.empty() ? ""
                      : "| " + what + " | type | default | meaning |\n|---|---|---|---|\n" + text;
}

}  // namespace tenon
