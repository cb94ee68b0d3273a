// SPDX-License-Identifier: Apache-2.0
//
// The only file that instantiates Section and KeyType for the sections.
#include "host/recipe/recipe_sections.hpp"

#include "host/json/one_or_named.hpp"
#include "host/recipe/recipe_rules.hpp"
#include "host/recipe/section.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <string>
#include <vector>

namespace tenon {

using nlohmann::json;

template <>
struct SectionRules<Recipe> {
  static KeySchema printed() {
    return printed_rules<Recipe>({&models_rules(),
                                  &component_rules(),
                                  &eval_rules(),
                                  &checkpoint_rules(),
                                  &retention_rules(),
                                  &training_rules(),
                                  &step_size_rules()});
  }
};

template <>
struct SectionRules<ModelUse> {
  static KeySchema printed() { return printed_rules<ModelUse>({&model_rules()}); }
};

template <>
struct SectionRules<DatasetUse> {
  static KeySchema printed() { return printed_rules<DatasetUse>({&dataset_rules()}); }
};

template <>
struct SectionRules<TableRecipe> {
  static KeySchema printed() { return printed_rules<TableRecipe>({&table_rules()}); }
};

template <>
struct SectionRules<TrainRecipe> {
  static KeySchema printed() {
    return printed_rules<TrainRecipe>({&run_length_rules(), &activation_rules(), &update_rules()});
  }
};

template <>
struct SectionRules<ExportRecipe> {
  static KeySchema printed() { return printed_rules<ExportRecipe>({&export_rules()}); }
};

template <>
struct KeyType<PluginNeed> : PlainKeyType {
  static KeySchema schema(const RecipeKey& key) { return KeyType<std::string>::schema(key); }
  static KeySchema json(const RecipeKey&, const PluginNeed& need) { return need.id; }
  static void read(const RecipeKey&, const KeyValue& at, PluginNeed& out) {
    out = parse_need(at.value.get<std::string>(), at.pointer);
    out.place = at.keys.place(at.pointer);
  }
};

// Names of evaluation sets. They are shorter than other names, because they are part of metric
// names, which may have 100 characters.
constexpr NameForm kEvalName = {
    "name", "^[A-Za-z0-9_-]{1,40}$", "letters, digits, '_' and '-', at most 40"};

// No evaluation set can have these names.
constexpr std::array kKeysOfOne = {"options", "mix"};

// Either one dataset, or an object of datasets by name.
template <>
struct KeyType<std::vector<EvalSetUse>> {
  static KeySchema schema(const RecipeKey&) {
    const KeySchema dataset = Section<DatasetUse>::of().schema();
    KeySchema printed = {
        {"if",
         {{"type", "object"},
          {"anyOf",
           KeySchema::array({{{"maxProperties", 0}},
                             {{"not", {{"additionalProperties", {{"type", "object"}}}}}}})}}},
        {"then", dataset},
        {"else",
         {{"propertyNames", {{"pattern", kEvalName.pattern}}}, {"additionalProperties", dataset}}}};
    for (const char* const key : kKeysOfOne) {
      printed["if"]["anyOf"].push_back(with_key(key, true));
    }
    return {{"type", {"object", "null"}},
            {"x-tenon-one-or-named",
             {{"one", dataset}, {"keys_of_one", kKeysOfOne}, {"names", name_schema(kEvalName)}}},
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
      at.keys.add(pointer, value);
      Section<DatasetUse>::of().read({value, pointer, at.keys}, set.data);
    };
    if (is_one(at.value, {kKeysOfOne.begin(), kKeysOfOne.end()})) {
      add("", at.value);
      return;
    }
    for (const auto& [name, value] : at.value.items()) {
      add(name, value);
    }
  }
  static void visit(std::vector<EvalSetUse>& sets, const ComponentFill& f) {
    for (EvalSetUse& set : sets) {
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

void read_sections(const json& root, BoundKeys& keys, Recipe& recipe) {
  const std::string pointer;
  Section<Recipe>::of().read({root, pointer, keys}, recipe);
}

void fill_each_component(Recipe& recipe, const ComponentFill& f) {
  Section<Recipe>::of().visit(recipe, f);
}

void for_each_component(const Recipe& recipe, const ComponentVisit& f) {
  // `f` gets a constant reference, so the recipe does not change.
  fill_each_component(const_cast<Recipe&>(recipe), [&f](ComponentUse& use) { f(use); });
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
