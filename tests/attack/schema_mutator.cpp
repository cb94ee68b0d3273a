// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/schema_mutator.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace tenon {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 4;  // of values that are made

void add_objects(json& value, std::vector<json*>& objects) {
  if (value.is_object()) {
    objects.push_back(&value);
  }
  if (value.is_structured()) {
    for (json& child : value) {
      add_objects(child, objects);
    }
  }
}

const json& any_of(const json& list, Mutator& mutator) {
  return list[mutator.below(list.size())];
}

}  // namespace

SchemaMutator::SchemaMutator(json schema) : schema_(std::move(schema)) {
  collect(schema_);
}

void SchemaMutator::collect(const json& schema) {
  if (schema.is_object()) {
    if (const auto found = schema.find("properties");
        found != schema.end() && found->is_object() && !found->empty()) {
      properties_.push_back(&*found);
    }
    if (const auto found = schema.find("enum"); found != schema.end() && found->is_array()) {
      for (const json& choice : *found) {
        if (choice.is_string()) {
          texts_.push_back(choice.get<std::string>());
        }
      }
    }
  }
  if (schema.is_structured()) {
    for (const auto& [key, child] : schema.items()) {
      if (key != "if") {  // conditions describe no values
        collect(child);
      }
    }
  }
}

const json& SchemaMutator::resolved(const json& schema) const {
  const json* at = &schema;
  for (int i = 0; i < 8 && at->is_object() && at->contains("$ref"); ++i) {
    const std::string ref = (*at)["$ref"].get<std::string>();
    const json::json_pointer pointer(ref.substr(1));
    if (!schema_.contains(pointer)) {
      break;
    }
    at = &schema_[pointer];
  }
  return *at;
}

json SchemaMutator::number_of(const json& schema, Mutator& mutator, bool is_integer) const {
  const double least = schema.value("minimum", schema.value("exclusiveMinimum", -3.0));
  const double most = schema.value("maximum", schema.value("exclusiveMaximum", least + 8));
  static const std::vector<json> absurd = {json(0),
                                           json(-1),
                                           json(1LL << 20),
                                           json(1LL << 31),
                                           json(1LL << 40),
                                           json(1LL << 53),
                                           json(INT64_MAX),
                                           json(UINT64_MAX),
                                           json(1e300),
                                           json(5e-324),
                                           json(-0.0)};
  if (mutator.one_in(8)) {
    return mutator.pick(absurd);
  }
  const double share = static_cast<double>(mutator.below(1001)) / 1000;
  const double value = mutator.one_in(4) ? (mutator.one_in(2) ? least : most)
                                         : least + share * std::min(most - least, 8.0);
  if (is_integer && std::abs(value) < 1e15) {
    return static_cast<std::int64_t>(std::floor(value));
  }
  return value;
}

json SchemaMutator::value_of(const json& written, Mutator& mutator, int depth) const {
  const json& schema = resolved(written);
  if (!schema.is_object() || depth > kMaxDepth) {
    return nullptr;
  }
  if (schema.contains("const")) {
    return schema["const"];
  }
  for (const char* const key : {"enum", "examples"}) {
    if (schema.contains(key) && schema[key].is_array() && !schema[key].empty()) {
      return any_of(schema[key], mutator);
    }
  }
  if (schema.contains("default") && mutator.one_in(4)) {
    return schema["default"];
  }
  for (const char* const key : {"anyOf", "oneOf", "allOf"}) {
    if (schema.contains(key) && !schema.contains("properties") && !schema[key].empty()) {
      return value_of(any_of(schema[key], mutator), mutator, depth + 1);
    }
  }
  json type = schema.value("type", json("object"));
  if (type.is_array() && !type.empty()) {
    type = any_of(type, mutator);
  }
  if (type == "integer" || type == "number") {
    return number_of(schema, mutator, type == "integer");
  }
  if (type == "boolean") {
    return mutator.one_in(2);
  }
  if (type == "string") {
    return texts_.empty() || mutator.one_in(3) ? json("text") : json(mutator.pick(texts_));
  }
  if (type == "array") {
    json list = json::array();
    for (std::size_t n = mutator.below(4); n > 0; --n) {
      list.push_back(value_of(schema.value("items", json::object()), mutator, depth + 1));
    }
    return list;
  }
  if (type != "object") {
    return nullptr;
  }
  json object = json::object();
  const json properties = schema.value("properties", json::object());
  const json required = schema.value("required", json::array());
  for (const auto& [key, of] : properties.items()) {
    const bool is_needed = std::ranges::find(required, json(key)) != required.end();
    if (is_needed || mutator.one_in(2 + properties.size() / 2)) {
      object[key] = value_of(of, mutator, depth + 1);
    }
  }
  return object;
}

std::vector<const json*> SchemaMutator::properties_for(const json& object) const {
  std::vector<const json*> found;
  for (const json* const properties : properties_) {
    const bool has_all = std::ranges::all_of(
        object.items(), [&](const auto& item) { return properties->contains(item.key()); });
    if (has_all && properties->size() > 1) {
      found.push_back(properties);
    }
  }
  return found;
}

void SchemaMutator::mutate(json& recipe, Mutator& mutator) const {
  std::vector<json*> objects;
  add_objects(recipe, objects);
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    json& object = *mutator.pick(objects);
    const std::vector<const json*> known = properties_for(object);
    if (object.empty() || known.empty()) {
      continue;
    }
    const json& properties = *mutator.pick(known);
    const auto property = std::next(properties.begin(),
                                    static_cast<std::ptrdiff_t>(mutator.below(properties.size())));
    object[property.key()] = value_of(property.value(), mutator, 0);
    return;
  }
}

}  // namespace tenon
