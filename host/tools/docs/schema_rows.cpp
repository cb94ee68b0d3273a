// SPDX-License-Identifier: Apache-2.0

#include "host/tools/docs/schema_rows.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

bool is_required(const Json& object, const std::string& name) {
  const Json* const required = schema_keyword(object, "required");
  return required != nullptr && required->is_array() &&
         std::ranges::find(*required, Json(name)) != required->end();
}

// The object form of a schema that also allows null, or the schema itself.
const Json& object_of(const Json& schema, const Json& root) {
  const Json* const forms = schema.is_object() ? schema_keyword(schema, "anyOf") : nullptr;
  if (forms != nullptr && forms->is_array()) {
    for (const Json& form : *forms) {
      const Json& whole = resolved_schema(form, root);
      if (whole.is_object() && whole.contains("properties")) {
        return whole;
      }
    }
  }
  return schema;
}

// The schema of an object's values if the recipe chooses their names. Null for other objects, and
// for objects of components, which are described separately.
const Json* parts_by_name(const Json& schema) {
  const Json* const named =
      schema.is_object() ? schema_keyword(schema, "additionalProperties") : nullptr;
  return named != nullptr && named->is_object() && !named->contains("x-tenon-slot") ? named
                                                                                    : nullptr;
}

void add_rows(const Json& object,
              const std::string& prefix,
              const Json& root,
              int depth,
              std::vector<SchemaRow>& rows) {
  const Json* const properties = schema_keyword(object, "properties");
  if (properties == nullptr || !properties->is_object() || depth > kMaxSchemaDepth) {
    return;
  }
  for (const auto& [name, given] : properties->items()) {
    const Json& schema = resolved_schema(given, root);
    const std::string path = prefix + name;
    const Json* const items = schema.is_object() ? schema_keyword(schema, "items") : nullptr;
    const bool is_component = schema.is_object() && schema.contains("x-tenon-component");
    const bool has_parts = schema.is_object() && schema.contains("properties") && !is_component;
    rows.push_back({.path = path,
                    .given = &given,
                    .schema = &schema,
                    .is_required = is_required(object, name),
                    .has_parts = has_parts});
    const Json& parts = object_of(schema, root);
    if (has_parts || &parts != &schema) {
      add_rows(parts, path + ".", root, depth + 1, rows);
    } else if (items != nullptr && items->is_object()) {
      add_rows(resolved_schema(*items, root), path + "[].", root, depth + 1, rows);
    } else if (const Json* const named = parts_by_name(schema)) {
      add_rows(resolved_schema(*named, root), path + ".NAME.", root, depth + 1, rows);
    }
  }
}

}  // namespace

std::vector<SchemaRow> schema_rows(const Json& root) {
  std::vector<SchemaRow> rows;
  add_rows(root, "", root, 0, rows);
  return rows;
}

const Json& resolved_schema(const Json& schema, const Json& root) {
  const Json* at = &schema;
  for (int depth = 0; depth < kMaxSchemaDepth; ++depth) {
    const Json* const ref = at->is_object() ? schema_keyword(*at, "$ref") : nullptr;
    if (ref == nullptr || !ref->is_string() ||
        !ref->get_ref<const std::string&>().starts_with("#")) {
      break;
    }
    try {
      at = &root.at(Json::json_pointer(ref->get_ref<const std::string&>().substr(1)));
    } catch (const Json::exception&) {
      break;  // registration has checked the schema; a dangling reference stays as it is
    }
  }
  return *at;
}

const Json* schema_keyword(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  return found != schema.end() ? &*found : nullptr;
}

std::string schema_doc(const SchemaRow& row) {
  for (const Json* const schema : {row.given, row.schema}) {
    const Json* const doc = schema->is_object() ? schema_keyword(*schema, "description") : nullptr;
    if (doc != nullptr) {
      return doc->is_string() ? doc->get<std::string>() : "";
    }
  }
  return "";
}

}  // namespace tenon
