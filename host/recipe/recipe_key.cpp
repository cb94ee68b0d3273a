// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_key.hpp"

#include <cmath>
#include <cstdint>
#include <utility>

namespace tenon {
namespace {

constexpr double kMaxExact = 9007199254740991;  // 2^53 - 1: exact in every JSON reader

// Writes 0 rather than 0.0, so that the limit of an integer is an integer.
KeySchema number(double value) {
  const bool is_whole = std::abs(value) <= kMaxExact && value == std::floor(value);
  return is_whole ? KeySchema(static_cast<std::int64_t>(value)) : KeySchema(value);
}

const char* name_of(ChangeClass change) {
  return change == ChangeClass::kFree    ? "free"
         : change == ChangeClass::kWarns ? "warns"
                                         : "refused";
}

}  // namespace

RecipeKey& RecipeKey::doc(std::string text) {
  doc_ = std::move(text);
  return *this;
}

RecipeKey& RecipeKey::resume_below(const char* pointer, ResumeReason reason) {
  rules_.push_back({pointer, reason.change, reason.why});
  return *this;
}

RecipeKey& RecipeKey::min(double value) {
  item_keywords_["minimum"] = number(value);
  return *this;
}

RecipeKey& RecipeKey::max(double value) {
  item_keywords_["maximum"] = number(value);
  return *this;
}

RecipeKey& RecipeKey::above(double value) {
  item_keywords_["exclusiveMinimum"] = number(value);
  return *this;
}

RecipeKey& RecipeKey::count() {
  return min(1).max(kMaxExact);
}

RecipeKey& RecipeKey::every() {
  keywords_["x-tenon-null"] = 0;
  return or_null().min(0).max(kMaxExact);
}

RecipeKey& RecipeKey::non_empty() {
  item_keywords_["minLength"] = 1;
  return *this;
}

RecipeKey& RecipeKey::max_length(int characters) {
  item_keywords_["maxLength"] = characters;
  return *this;
}

RecipeKey& RecipeKey::pattern(const char* regex) {
  item_keywords_["pattern"] = regex;
  return *this;
}

RecipeKey& RecipeKey::one_of(std::vector<std::string> values) {
  return choices(KeySchema(std::move(values)));
}

RecipeKey& RecipeKey::choices(KeySchema values) {
  item_keywords_["enum"] = std::move(values);
  return *this;
}

RecipeKey& RecipeKey::path() {
  item_keywords_["x-tenon-path"] = true;
  return *this;
}

RecipeKey& RecipeKey::min_items(int n) {
  list_keywords_["minItems"] = n;
  return *this;
}

RecipeKey& RecipeKey::or_one() {
  takes_one_ = true;
  return *this;
}

RecipeKey& RecipeKey::min_keys(int n) {
  keywords_["minProperties"] = n;
  return *this;
}

RecipeKey& RecipeKey::names(const NameForm& form) {
  keywords_["propertyNames"] = name_schema(form);
  return *this;
}

RecipeKey& RecipeKey::component(const char* kind) {
  kind_ = kind;
  return *this;
}

RecipeKey& RecipeKey::required() {
  is_required_ = true;
  return *this;
}

RecipeKey& RecipeKey::absent() {
  is_required_ = false;
  is_absent_ = true;
  return *this;
}

RecipeKey& RecipeKey::or_null() {
  is_nullable_ = true;
  return *this;
}

RecipeKey& RecipeKey::preset(const char* json_text) {
  preset_ = KeySchema::parse(json_text);
  return *this;
}

RecipeKey& RecipeKey::short_form() {
  keywords_["x-tenon-short-form"] = true;
  return absent();
}

RecipeKey& RecipeKey::formerly(const char* name) {
  old_names_.emplace_back(name);
  return *this;
}

RecipeKey& RecipeKey::formerly(const char* old_value, const char* value) {
  keywords_["x-tenon-renamed-values"][old_value] = value;
  return *this;
}

RecipeKey& RecipeKey::not_yet(const char* what, const char* unless, const char* instead) {
  unavailable_ = {{"what", what}, {"unless", KeySchema::parse(unless)}};
  if (*instead != '\0') {
    unavailable_["instead"] = instead;
  }
  return *this;
}

SectionSchema::SectionSchema(const Object& object) {
  schema_["type"] = "object";
  if (object.has_text_form) {
    schema_["type"] = {"string", "object"};
    if (object.word_pattern.empty()) {
      schema_["minLength"] = 1;
      schema_["x-tenon-path"] = true;
    } else {
      schema_["pattern"] = object.word_pattern;
    }
  }
  if (!object.is_open) {
    schema_["additionalProperties"] = false;
  }
  if (!object.doc.empty()) {
    schema_["description"] = object.doc;
  }
  if (!object.slot.empty()) {
    schema_["x-tenon-slot"] = object.slot;
  }
  if (!object.rules.is_null()) {
    schema_["x-tenon-printed"] = object.rules;
  }
}

KeySchema name_schema(const NameForm& form) {
  return {{"title", form.what}, {"pattern", form.pattern}, {"description", form.words}};
}

void SectionSchema::add(const RecipeKey& key, KeySchema schema, KeySchema preset) {
  if (key.is_nullable_) {
    make_nullable(schema);
  }
  schema = with_keywords(std::move(schema), key.keywords_);
  if (!key.doc_.empty()) {
    schema["description"] = key.doc_;
  }
  if (key.is_required_) {
    required_.push_back(key.name_);
  } else if (key.preset_) {
    schema["default"] = *key.preset_;
  } else if (!key.is_absent_ && !preset.is_discarded()) {
    schema["default"] = std::move(preset);
  }
  for (const ResumeRule& rule : key.rules_) {
    schema["x-tenon-resume"].push_back(
        {{"below", rule.key}, {"change", name_of(rule.change)}, {"why", rule.why}});
  }
  for (const std::string& old : key.old_names_) {
    renamed_[old] = key.name_;
  }
  properties_[key.name_] = std::move(schema);
}

void SectionSchema::add_unavailable(const RecipeKey& key) {
  properties_[key.name_]["x-tenon-unavailable"] = key.unavailable_;
}

KeySchema SectionSchema::take() {
  if (!required_.empty()) {
    schema_["required"] = std::move(required_);
  }
  if (!renamed_.empty()) {
    schema_["x-tenon-renamed"] = std::move(renamed_);
  }
  schema_["properties"] = std::move(properties_);
  return std::move(schema_);
}

KeySchema no_preset() {
  return KeySchema(KeySchema::value_t::discarded);
}

void make_nullable(KeySchema& schema) {
  if (const auto type = schema.find("type"); type != schema.end()) {
    KeySchema types = type->is_array() ? *type : KeySchema::array({*type});
    types.push_back("null");
    *type = std::move(types);
  }
  if (const auto values = schema.find("enum"); values != schema.end()) {
    values->insert(values->begin(), nullptr);
  }
}

bool has_required(const KeySchema& schema) {
  return schema.contains("required");
}

KeySchema with_keywords(KeySchema schema, const KeySchema& keywords) {
  for (const auto& [name, value] : keywords.items()) {
    schema[name] = value;
  }
  return schema;
}

KeySchema choice_schema(const RecipeKey& key) {
  return key.item_keywords();
}

KeySchema list_schema(const RecipeKey& key, KeySchema items) {
  KeySchema schema = KeySchema::object();
  if (key.takes_one()) {
    schema = items;
    KeySchema types = items["type"].is_array() ? items["type"] : KeySchema::array({items["type"]});
    types.push_back("array");
    schema["type"] = std::move(types);
  } else {
    schema["type"] = "array";
  }
  schema["items"] = std::move(items);
  return with_keywords(std::move(schema), key.list_keywords());
}

KeySchema text_or_null(const char* text) {
  return text != nullptr ? KeySchema(text) : KeySchema(nullptr);
}

}  // namespace tenon
