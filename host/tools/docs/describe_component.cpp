// SPDX-License-Identifier: Apache-2.0

#include "host/tools/docs/describe_component.hpp"

#include "host/error/error.hpp"
#include "host/recipe/recipe_schema.hpp"
#include "host/terminal/text_table.hpp"
#include "host/text/joined.hpp"
#include "host/text/nearest_name.hpp"
#include "host/tools/docs/json_text.hpp"
#include "host/tools/docs/option_markdown.hpp"
#include "host/tools/docs/schema_rows.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;  // options in the order in which the plugin declares them

constexpr std::size_t kMaxDefault = 40;

void add_once(std::vector<std::string>& words, const std::string& word) {
  if (!word.empty() && std::ranges::find(words, word) == words.end()) {
    words.push_back(word);
  }
}

// "integer", "list of number", "path or null", "tokenizer component".
std::string type_of(const Json& given, const Json& root, int depth = 0) {
  const Json& schema = resolved_schema(given, root);
  if (!schema.is_object() || depth > kMaxSchemaDepth) {
    return "any";
  }
  std::vector<std::string> words;
  for (const char* const variants : {"anyOf", "oneOf"}) {
    if (const Json* const forms = schema_keyword(schema, variants);
        forms != nullptr && forms->is_array()) {
      for (const Json& form : *forms) {
        add_once(words, type_of(form, root, depth + 1));
      }
    }
  }
  Json types = schema.value("type", Json::array());
  if (types.is_string()) {
    types = Json::array({types});
  }
  for (const Json& type : types) {
    std::string word = type.is_string() ? type.get<std::string>() : dumped(type);
    if (word == "array") {
      const Json* const items = schema_keyword(schema, "items");
      word = items != nullptr && items->is_object() ? "list of " + type_of(*items, root, depth + 1)
                                                    : "list";
    } else if (word == "string" && schema.value("x-tenon-path", Json(false)) == true) {
      word = "path";
    } else if (const Json* const kind = schema_keyword(schema, "x-tenon-component");
               word == "object" && kind != nullptr && kind->is_string()) {
      word = kind->get<std::string>() + " component";
    }
    add_once(words, word);
  }
  if (words.empty()) {
    return schema.contains("enum") || schema.contains("const") ? "choice" : "any";
  }
  // Moves null to the end.
  std::stable_partition(
      words.begin(), words.end(), [](const std::string& word) { return word != "null"; });
  return joined(words, " or ");
}

std::string range_of(const Json& schema) {
  const Json* const minimum = schema_keyword(schema, "minimum");
  const Json* const maximum = schema_keyword(schema, "maximum");
  if (minimum != nullptr && maximum != nullptr) {
    return dumped(*minimum) + " to " + dumped(*maximum);
  }
  std::vector<std::string> words;
  for (const auto& [name, sign] : {std::pair("minimum", ">= "),
                                   std::pair("exclusiveMinimum", "> "),
                                   std::pair("maximum", "<= "),
                                   std::pair("exclusiveMaximum", "< ")}) {
    if (const Json* const limit = schema_keyword(schema, name);
        limit != nullptr && limit->is_number()) {
      words.push_back(sign + dumped(*limit));
    }
  }
  return joined(words, ", ");
}

// "2 entries", "at least 1 entry".
std::string count_of(
    const Json& schema, const char* least, const char* most, const char* one, const char* many) {
  const Json* const minimum = schema_keyword(schema, least);
  const Json* const maximum = schema_keyword(schema, most);
  const auto with_unit = [&](const Json& number) {
    return dumped(number) + " " + (number == 1 ? one : many);
  };
  if (minimum != nullptr && maximum != nullptr) {
    return *minimum == *maximum ? with_unit(*minimum)
                                : dumped(*minimum) + " to " + with_unit(*maximum);
  }
  if (minimum != nullptr) {
    return "at least " + with_unit(*minimum);
  }
  return maximum != nullptr ? "at most " + with_unit(*maximum) : "";
}

std::string bounds_of(const Json& given, const Json& root, int depth = 0) {
  const Json& schema = resolved_schema(given, root);
  if (!schema.is_object() || depth > kMaxSchemaDepth) {
    return {};
  }
  std::vector<std::string> words;
  if (const Json* const value = schema_keyword(schema, "const")) {
    words.push_back(plain(*value));
  }
  if (const Json* const values = schema_keyword(schema, "enum");
      values != nullptr && values->is_array()) {
    std::vector<std::string> names;
    for (const Json& value : *values) {
      if (!value.is_null()) {  // null is part of the type
        names.push_back(plain(value));
      }
    }
    words.push_back(joined(names, " | "));
  }
  for (const char* const variants : {"anyOf", "oneOf"}) {
    if (const Json* const forms = schema_keyword(schema, variants);
        forms != nullptr && forms->is_array()) {
      for (const Json& form : *forms) {
        add_once(words, bounds_of(form, root, depth + 1));
      }
    }
  }
  add_once(words, range_of(schema));
  if (const Json* const factor = schema_keyword(schema, "multipleOf")) {
    words.push_back("multiple of " + dumped(*factor));
  }
  add_once(words, count_of(schema, "minItems", "maxItems", "entry", "entries"));
  if (schema_keyword(schema, "minLength") != nullptr && !schema.contains("maxLength") &&
      schema["minLength"] == 1) {
    words.emplace_back("not empty");
  } else {
    add_once(words, count_of(schema, "minLength", "maxLength", "character", "characters"));
  }
  if (const Json* const pattern = schema_keyword(schema, "pattern")) {
    words.push_back("matches " + plain(*pattern));
  }
  if (const Json* const items = schema_keyword(schema, "items");
      items != nullptr && items->is_object()) {
    if (const std::string each = bounds_of(*items, root, depth + 1); !each.empty()) {
      words.push_back("each " + each);
    }
  }
  return joined(words, ", ");
}

std::string default_of(const SchemaRow& row) {
  if (row.is_required) {
    return "required";
  }
  const Json* const value =
      row.schema->is_object() ? schema_keyword(*row.schema, "default") : nullptr;
  if (value == nullptr || row.has_parts) {
    return "";  // each part has its own default
  }
  std::string text = dumped(*value);
  if (text.size() <= kMaxDefault) {
    return text;
  }
  return value->is_object() ? "{...}" : value->is_array() ? "[...]" : text;
}

Json schema_of(const LoadedComponent& component) {
  return component.options_schema.empty() ? Json::object() : Json::parse(component.options_schema);
}

}  // namespace

const LoadedComponent& component_to_describe(PluginRegistry& registry,
                                             const std::string& kind,
                                             const std::string& name) {
  const FindResult result = registry.find(kind, name);
  if (const auto* const unknown = std::get_if<UnknownComponent>(&result)) {
    std::string hint = did_you_mean(name, unknown->offered);
    if (hint.empty()) {
      hint = unknown->offered.empty() ? "--list-plugins shows what there is"
                                      : "there is " + joined(unknown->offered, ", ");
    }
    throw Error("recipe.unknown_type",
                "no plugin in " + registry.describe_folders() + " offers " + kind + " \"" + name +
                    "\"" + registry.describe_not_plugins() + "; " + hint);
  }
  return registry.get(kind, name);
}

std::string component_text(const LoadedComponent& component) {
  const PluginContext& plugin = component.plugin->host.context();
  std::string text = component.kind + ":" + component.type + "\n";
  if (!component.summary.empty()) {
    text += component.summary + "\n";
  }
  text += "plugin " + plugin.id + " " + plugin.version + " (" + plugin.file + ")\n\n";
  const Json schema = schema_of(component);
  std::vector<std::vector<std::string>> cells = {
      {"OPTION", "TYPE", "DEFAULT", "BOUNDS", "WHAT IT IS"}};
  for (const SchemaRow& row : schema_rows(schema)) {
    cells.push_back({row.path,
                     type_of(*row.given, schema),
                     default_of(row),
                     bounds_of(*row.given, schema),
                     schema_doc(row)});
  }
  return text + (cells.size() == 1 ? "It takes no options.\n" : text_table(cells));
}

std::string component_markdown(const LoadedComponent& component) {
  const std::string table = option_markdown(schema_of(component), "option");
  return table.empty() ? "It takes no options.\n" : table;
}

std::string recipe_markdown(const std::vector<std::string>& keys) {
  const Json schema = Json::parse(recipe_schema_text());
  std::vector<std::string> known;
  for (const auto& [key, described] : schema.at("properties").items()) {
    known.push_back(key);
  }
  for (const std::string& key : keys) {
    if (std::ranges::find(known, key) == known.end()) {
      const std::string hint = did_you_mean(key, known);
      throw Error("usage.bad_option",
                  "--describe: a recipe has no key \"" + key + "\"; " +
                      (hint.empty() ? "keys are " + joined(known, ", ") : hint));
    }
  }
  return option_markdown(schema, "key", keys);
}

std::string component_json(const LoadedComponent& component) {
  const PluginContext& plugin = component.plugin->host.context();
  const Json description = {
      {"kind", component.kind},
      {"type", component.type},
      {"summary", component.summary},
      {"interface", component.interface_id},
      {"plugin", {{"id", plugin.id}, {"version", plugin.version}, {"file", plugin.file}}},
      {"options_schema", schema_of(component)},
  };
  return description.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon
