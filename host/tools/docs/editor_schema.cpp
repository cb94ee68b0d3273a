// SPDX-License-Identifier: Apache-2.0

#include "host/tools/docs/editor_schema.hpp"

#include "host/error/error.hpp"
#include "host/json/json_source.hpp"
#include "host/json/schema_arbiter.hpp"
#include "host/json/schema_words.hpp"
#include "host/plugin/kinds.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kDefinitions[] = "#/definitions/";

template <std::size_t kSize>
bool is_one_of(const std::array<std::string_view, kSize>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// The keywords whose values contain schemas, by the form of the value.
constexpr std::array<std::string_view, 8> kOneSchema = {"additionalItems",
                                                        "additionalProperties",
                                                        "contains",
                                                        "else",
                                                        "if",
                                                        "not",
                                                        "propertyNames",
                                                        "then"};
constexpr std::array<std::string_view, 3> kListOfSchemas = {"allOf", "anyOf", "oneOf"};
constexpr std::array<std::string_view, 4> kSchemasByName = {
    "definitions", "dependencies", "patternProperties", "properties"};

json reference(const std::string& definition) {
  return {{"$ref", kDefinitions + definition}};
}

// Adds a rule through "allOf": in draft 7, keywords beside a "$ref" are ignored.
void add_rule(json& schema, json rule) {
  schema["allOf"].push_back(std::move(rule));
}

// The key of a component's options in "definitions".
std::string options_key(const OfferedComponent& component) {
  return component.kind + "." + component.plugin_id + "." + component.type;
}

// The schema of an optimizer group, derived from the schema of the optimizer's options. Drops the
// rules for complete options, because a group inherits the options that it does not name.
json group_schema(json options) {
  if (!options.is_object() || options.contains("$ref")) {
    return true;
  }
  for (const char* const name : {"required",
                                 "default",
                                 "description",
                                 "definitions",
                                 "allOf",
                                 "anyOf",
                                 "oneOf",
                                 "if",
                                 "then",
                                 "else",
                                 "not",
                                 "dependencies",
                                 "minProperties",
                                 "maxProperties"}) {
    options.erase(name);
  }
  options["properties"]["match"] = true;
  options["properties"]["type"] = true;
  return options;
}

class EditorSchema {
 public:
  explicit EditorSchema(const std::vector<OfferedComponent>& offered) : offered_(offered) {}

  json build() {
    json schema = printed(recipe_schema(), "");
    // The definition of a kind may refer to further kinds.
    while (!wanted_.empty()) {
      const std::string kind = *wanted_.begin();
      wanted_.erase(wanted_.begin());
      define(kind);
    }
    schema["$schema"] = "http://json-schema.org/draft-07/schema#";
    schema["description"] = "A recipe, with the components of the plugins " + plugin_list();
    schema["allowComments"] = true;  // for editors: a recipe may have comments
    schema["definitions"] = std::move(definitions_);
    return schema;
  }

 private:
  // Returns the schema for editors, with Tenon's own keywords translated to standard ones.
  // `definition` is the key of a plugin's schema in "definitions", for its internal references.
  json printed(const json& schema, const std::string& definition) {
    if (!schema.is_object()) {
      return schema;
    }
    if (const auto mark = schema.find("x-tenon-unavailable"); mark != schema.end()) {
      return unavailable(*mark);
    }
    json result = json::object();
    for (const auto& [key, value] : schema.items()) {
      if (key == "required" && value.is_array()) {
        result[key] = without_defaults(value, schema);
      } else if (!key.starts_with("x-tenon-") && key != "$schema" && key != "$id") {
        result[key] = printed_value(key, value, definition);
      }
    }
    add_marked(schema, definition, result);
    return result;
  }

  // Returns the value of a keyword, with the schemas inside it translated by printed().
  json printed_value(const std::string& key, const json& value, const std::string& definition) {
    if (key == "$ref" && value.is_string()) {
      const auto& target = value.get_ref<const std::string&>();
      return target.starts_with('#') ? kDefinitions + definition + target.substr(1) : target;
    }
    if (is_one_of(kOneSchema, key) || (key == "items" && !value.is_array())) {
      return printed(value, definition);
    }
    if (is_one_of(kListOfSchemas, key) || key == "items") {
      json list = json::array();
      for (const json& one : value) {
        list.push_back(printed(one, definition));
      }
      return list;
    }
    if (is_one_of(kSchemasByName, key)) {
      json by_name = json::object();
      for (const auto& [name, one] : value.items()) {
        by_name[name] = printed(one, definition);
      }
      return by_name;
    }
    return value;
  }

  void add_marked(const json& schema, const std::string& definition, json& result) {
    if (const auto slot = schema.find("x-tenon-slot"); slot != schema.end()) {
      add_rule(result, reference(want(slot->get<std::string>())));
    }
    if (const auto kind = schema.find("x-tenon-component");
        kind != schema.end() && kind->is_string()) {
      add_nested(want(kind->get<std::string>()), result);
    }
    if (const auto rules = schema.find("x-tenon-printed"); rules != schema.end()) {
      add_rule(result, printed(*rules, definition));
    }
    if (const auto values = schema.find("x-tenon-unavailable-values"); values != schema.end()) {
      add_rule(result, {{"not", {{"enum", *values}}}});
    }
  }

  // Removes keys with a default: the host adds them before it checks "required".
  static json without_defaults(const json& required, const json& schema) {
    const json properties = schema.value("properties", json::object());
    json left = json::array();
    for (const json& key : required) {
      const auto property =
          key.is_string() ? properties.find(key.get<std::string>()) : properties.end();
      const bool has_default =
          property != properties.end() && property->is_object() && property->contains("default");
      if (!has_default) {
        left.push_back(key);
      }
    }
    return left;
  }

  // errorMessage and doNotSuggest are keywords of editors, not of JSON Schema.
  static json unavailable(const json& mark) {
    const std::string what = mark.value("what", std::string("this part"));
    json schema = {{"description", "not in this release: " + what},
                   {"errorMessage",
                    "this release does not have " + what + " yet; " +
                        mark.value("instead", std::string("remove the key"))},
                   {"doNotSuggest", true}};
    if (const auto unless = mark.find("unless"); unless != mark.end()) {
      schema["enum"] = *unless;
    } else {
      schema["not"] = json::object();
    }
    return schema;
  }

  // Adds the rules of a component inside options: {"type", "options"} or {"ref"}.
  void add_nested(const std::string& kind, json& schema) {
    const json ref = {{"type", "string"},
                      {"minLength", 1},
                      {"description", "instead of type: the JSON pointer of another " + kind}};
    const json properties = {
        {"type", {{"type", "string"}}}, {"options", {{"type", "object"}}}, {"ref", ref}};
    const json with_type = {{"required", json::array({"type"})}};
    const json no_options = {{"options", false}};
    const json with_ref = {{"required", json::array({"ref"})}, {"properties", no_options}};
    json form = json::object();
    form["properties"] = properties;
    form["additionalProperties"] = false;
    form["oneOf"] = json::array({with_type, with_ref});
    form["allOf"] = json::array({reference(kind)});
    const json is_object = {{"type", "object"}};  // else null, if the schema allows it
    add_rule(schema, {{"if", is_object}, {"then", form}});
  }

  const std::string& want(const std::string& kind) {
    return *(defined_.contains(kind) ? defined_.find(kind) : wanted_.insert(kind).first);
  }

  // Defines the rules for "type" and "options" of all components of the kind.
  void define(const std::string& kind) {
    defined_.insert(kind);
    std::vector<const OfferedComponent*> components;
    for (const OfferedComponent& component : offered_) {
      if (component.kind == kind) {
        components.push_back(&component);
      }
    }
    json rules = json::array();
    for (const OfferedComponent* const component : components) {
      const std::string key = options_key(*component);
      definitions_[key] = printed(parsed(*component), key);
      json then = {{"properties", {{"options", reference(key)}}}};
      if (!definitions_[key].value("required", json::array()).empty()) {
        then["required"] = json::array({"options"});
      }
      rules.push_back({{"if", has_type(*component)}, {"then", std::move(then)}});
    }
    if (kind == "optimizer") {
      add_groups(components, rules);
    }
    definitions_[kind] = {{"properties", {{"type", type_schema(kind, components)}}}};
    if (!rules.empty()) {
      definitions_[kind]["allOf"] = std::move(rules);
    }
  }

  // Adds the rules of optimizer groups. A group is a pattern, an optional type, and options.
  // Options that the group inherits from the optimizer are not required.
  void add_groups(const std::vector<const OfferedComponent*>& components, json& rules) {
    constexpr char kGroup[] = "optimizer_group";
    json others = json::array();
    for (std::size_t i = 0; i < components.size(); ++i) {
      const std::string key = options_key(*components[i]);
      const std::string group = kGroup + key.substr(std::string_view("optimizer").size());
      const json required = definitions_[key].value("required", json::array());
      definitions_[group] = group_schema(definitions_[key]);
      json whole = {{"allOf", json::array({reference(group)})}};
      if (!required.empty()) {
        whole["required"] = required;
      }
      others.push_back({{"if", has_type(*components[i])}, {"then", std::move(whole)}});
      // A group without a type satisfies "if": it has the optimizer's type.
      json is_same = has_type(*components[i]);
      is_same.erase("required");
      rules[i]["then"]["properties"]["groups"] = {
          {"items",
           {{"if", std::move(is_same)}, {"then", reference(group)}, {"else", reference(kGroup)}}}};
    }
    definitions_[kGroup] = {{"properties", {{"type", type_schema("optimizer", components)}}}};
    if (!others.empty()) {
      definitions_[kGroup]["allOf"] = std::move(others);
    }
  }

  // Matches each name of the component. A list of names would appear in editors' suggestions.
  static std::string name_pattern(const OfferedComponent& component) {
    std::string plugin;
    for (const char c : component.plugin_id) {
      plugin += c == '.' ? "\\." : std::string(1, c);
    }
    const bool is_short = component.name == component.type;
    return "^(" + plugin + "/)" + (is_short ? "?" : "") + component.type + "$";
  }

  static json has_type(const OfferedComponent& component) {
    return {{"properties", {{"type", {{"type", "string"}, {"pattern", name_pattern(component)}}}}},
            {"required", json::array({"type"})}};
  }

  // Returns a choice of the names with their summaries, and patterns for all forms of the names.
  static json type_schema(const std::string& kind,
                          const std::vector<const OfferedComponent*>& components) {
    if (components.empty()) {
      return {{"not", json::object()},
              {"errorMessage", "no plugin offers a " + kind},
              {"description", "no plugin offers a " + kind}};
    }
    json forms = json::array();
    json patterns = json::array();
    for (const OfferedComponent* const component : components) {
      json form = {{"const", component->name}};
      if (!component->summary.empty()) {
        form["description"] = component->summary;
      }
      forms.push_back(std::move(form));
      patterns.push_back({{"type", "string"}, {"pattern", name_pattern(*component)}});
    }
    for (json& pattern : patterns) {
      forms.push_back(std::move(pattern));
    }
    return {{"anyOf", std::move(forms)}};
  }

  static json parsed(const OfferedComponent& component) {
    if (component.options_schema.empty()) {
      return {{"type", "object"}, {"additionalProperties", false}};
    }
    const std::string whose =
        "the " + component.kind + " \"" + component.type + "\" of " + component.plugin_id;
    json schema;
    try {
      schema = parse_json(component.options_schema, "schema");
    } catch (const Error& error) {
      throw Error("plugin.bad_schema",
                  "the option schema of " + whose + " is not a JSON Schema: " + error.message());
    }
    (void)SchemaArbiter(schema, whose);
    return schema;
  }

  std::string plugin_list() const {
    std::set<std::string> ids;
    for (const OfferedComponent& component : offered_) {
      ids.insert(component.plugin_id);
    }
    std::string list;
    for (const std::string& id : ids) {
      list += (list.empty() ? "" : ", ") + id;
    }
    return list.empty() ? "(none)" : list;
  }

  const std::vector<OfferedComponent>& offered_;
  json definitions_ = json::object();
  std::set<std::string> wanted_;   // kinds to define
  std::set<std::string> defined_;  // kinds already defined
};

}  // namespace

std::vector<OfferedComponent> offered_components(PluginRegistry& registry) {
  std::vector<OfferedComponent> offered;
  for (const KindEntry& entry : all_kinds()) {
    const std::string kind(entry.kind);
    for (const std::string& name : registry.types_of(kind)) {
      const FindResult result = registry.find(kind, name);
      // Skips components of two plugins with the same id, which no recipe can name.
      if (const auto* const found = std::get_if<FoundComponent>(&result)) {
        const LoadedComponent& component = *found->component;
        offered.push_back({.kind = kind,
                           .name = name,
                           .plugin_id = component.plugin->host.context().id,
                           .type = component.type,
                           .summary = component.summary,
                           .options_schema = component.options_schema});
      }
    }
  }
  return offered;
}

json editor_schema(const std::vector<OfferedComponent>& offered) {
  return EditorSchema(offered).build();
}

std::string editor_schema_text(const std::vector<OfferedComponent>& offered) {
  return editor_schema(offered).dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tenon
