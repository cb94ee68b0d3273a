// SPDX-License-Identifier: Apache-2.0
//
// The only file that instantiates Section and KeyType for the sections.
#include "host/recipe/recipe_sections.hpp"

#include "host/recipe/eval_sites.hpp"
#include "host/recipe/section.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tenon {

using nlohmann::json;

template <>
struct KeyType<PluginNeed> : PlainKeyType {
  static KeySchema schema(const RecipeKey& key) { return KeyType<std::string>::schema(key); }
  static KeySchema json(const RecipeKey&, const PluginNeed& need) { return need.id; }
  static void read(const RecipeKey&, const KeyValue& at, PluginNeed& out) {
    out = parse_need(at.value.get<std::string>(), at.pointer);
  }
};

// Either one dataset, or an object of datasets by name.
template <>
struct KeyType<std::vector<EvalSetUse>> {
  static KeySchema schema(const RecipeKey&) {
    const KeySchema dataset = Section<DatasetUse>::of().schema();
    KeySchema printed = KeySchema::parse(R"({
      "if": {"type": "object", "anyOf": [
        {"maxProperties": 0}, {"required": ["options"]}, {"required": ["mix"]},
        {"not": {"additionalProperties": {"type": "object"}}}]},
      "else": {"propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,40}$"}}})");
    printed["then"] = dataset;
    printed["else"]["additionalProperties"] = dataset;
    return {{"type", {"object", "null"}},
            {"x-tenon-one-or-named", dataset},
            {"x-tenon-printed", printed}};
  }
  static KeySchema json(const RecipeKey&, const std::vector<EvalSetUse>&) { return nullptr; }
  static void read(const RecipeKey& key, const KeyValue& at, std::vector<EvalSetUse>& out) {
    if (at.value.is_null()) {
      return;
    }
    const auto add = [&](const std::string& name, const nlohmann::json& value) {
      const std::string pointer = name.empty() ? at.pointer : join_pointer(at.pointer, name);
      EvalSetUse& set = out.emplace_back();
      set.list = key.name();
      set.name = name;
      Section<DatasetUse>::of().read({value, pointer, at.components}, set.data);
    };
    if (is_single_dataset(at.value)) {
      add("", at.value);
      return;
    }
    for (const auto& [name, value] : at.value.items()) {
      add(name, value);
    }
  }
  static void visit(const std::vector<EvalSetUse>& sets, const ComponentVisit& f) {
    for (const EvalSetUse& set : sets) {
      KeyType<DatasetUse>::visit(set.data, f);
    }
  }
};

namespace {

ChangeClass change_of(const std::string& name) {
  return name == "free"    ? ChangeClass::kFree
         : name == "warns" ? ChangeClass::kWarns
                           : ChangeClass::kRefused;
}

void collect_rules(const KeySchema& schema,
                   const std::string& pointer,
                   std::vector<ResumeRule>& rules) {
  if (schema.contains("x-tenon-short-form")) {
    return;
  }
  for (const auto& rule : schema.value("x-tenon-resume", KeySchema::array())) {
    rules.push_back({pointer + rule.at("below").get<std::string>(),
                     change_of(rule.at("change").get<std::string>()),
                     rule.at("why").get<std::string>()});
  }
  if (const auto properties = schema.find("properties"); properties != schema.end()) {
    for (const auto& [key, described] : properties->items()) {
      collect_rules(described, join_pointer(pointer, key), rules);
    }
  }
  for (const char* const below : {"items", "additionalProperties"}) {
    if (const auto found = schema.find(below); found != schema.end() && found->is_object()) {
      collect_rules(*found, pointer + "/*", rules);
    }
  }
}

}  // namespace

const KeySchema& ordered_recipe_schema() {
  static const KeySchema schema = [] {
    KeySchema made = Section<Recipe>::of().schema();
    made["$schema"] = "http://json-schema.org/draft-07/schema#";
    made["title"] = "Tenon recipe";
    return made;
  }();
  return schema;
}

const KeySchema& ordered_dataset_schema() {
  static const KeySchema schema = Section<DatasetUse>::of().schema();
  return schema;
}

void read_sections(const json& root,
                   const std::map<std::string, ComponentUse>& components,
                   Recipe& recipe) {
  const std::string pointer;
  Section<Recipe>::of().read({root, pointer, components}, recipe);
}

void for_each_component(const Recipe& recipe, const ComponentVisit& f) {
  Section<Recipe>::of().visit(recipe, f);
}

std::vector<ResumeRule> recipe_resume_rules() {
  std::vector<ResumeRule> rules;
  collect_rules(ordered_recipe_schema(), "", rules);
  return rules;
}

PluginNeed parse_need(const std::string& text, const std::string& pointer) {
  const std::size_t relation = text.find_first_of("<>=");
  const std::size_t id_end = text.find_first_of(" <>=");
  PluginNeed need{
      .id = text.substr(0, id_end), .relation = "", .version = "", .place = {}, .pointer = pointer};
  if (relation != std::string::npos) {
    need.relation = text.substr(relation, 2);
    need.version = text.substr(text.find_first_not_of(' ', relation + 2));
  }
  return need;
}

}  // namespace tenon
