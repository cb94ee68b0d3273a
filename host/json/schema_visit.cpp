// SPDX-License-Identifier: Apache-2.0

#include "host/json/schema_visit.hpp"

#include "host/json/json_path.hpp"
#include "host/json/one_or_named.hpp"
#include "host/json/schema_check.hpp"
#include "host/json/schema_keyword.hpp"
#include "host/json/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <vector>

namespace tenon {

using nlohmann::json;

const json* fitting_variant(const json& value, const json& schema) {
  const PlaceMap nowhere;
  for (const char* const name : {"oneOf", "anyOf"}) {
    if (const json* const variants = find_keyword(schema, name, KeywordType::kArray)) {
      for (const json& variant : *variants) {
        ProblemList problems;
        check_schema(value, variant, "", nowhere, problems);
        if (problems.empty()) {
          return &variant;
        }
      }
    }
  }
  return nullptr;
}

namespace {

void visit_form(json& value,
                const FormOfObject& form,
                const std::string& pointer,
                const SchemaVisit& visit) {
  if (form.is_one) {
    visit_schema(value, *form.one, pointer, visit);
    return;
  }
  for (const std::string& name : keys_of(value)) {
    visit_schema(value[name], *form.one, join_pointer(pointer, name), visit);
  }
}

}  // namespace

void visit_schema(json& value,
                  const json& schema,
                  const std::string& pointer,
                  const SchemaVisit& visit) {
  if (!schema.is_object() || !visit(value, schema, pointer)) {
    return;
  }
  if (const FormOfObject form = form_of_object(value, schema); form.one != nullptr) {
    visit_form(value, form, pointer, visit);
  } else if (value.is_array()) {
    if (const json* const items = find_keyword(schema, "items", KeywordType::kObject)) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        visit_schema(value[i], *items, join_pointer(pointer, i), visit);
      }
    }
  } else if (value.is_object()) {
    const json* const properties = find_keyword(schema, "properties", KeywordType::kObject);
    const json* const others = find_keyword(schema, "additionalProperties", KeywordType::kObject);
    for (const std::string& key : keys_of(value)) {
      const json* described =
          properties != nullptr ? find_keyword(*properties, key.c_str()) : nullptr;
      described = described != nullptr ? described : others;
      const auto child = value.find(key);
      if (described != nullptr && child != value.end()) {
        visit_schema(*child, *described, join_pointer(pointer, key), visit);
      }
    }
  }
  if (const json* const variant = fitting_variant(value, schema)) {
    visit_schema(value, *variant, pointer, visit);
  }
  if (const json* const all = find_keyword(schema, "allOf", KeywordType::kArray)) {
    for (const json& one : *all) {
      visit_schema(value, one, pointer, visit);
    }
  }
}

}  // namespace tenon
