// SPDX-License-Identifier: Apache-2.0
//
// The keys of a JSON Schema as a flat list that includes nested keys, for tables. Each table
// formats the rows itself.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

struct SchemaRow {
  std::string path;                      // "range.first", "layers[].width"
  const nlohmann::ordered_json* given;   // the key's schema as written
  const nlohmann::ordered_json* schema;  // the key's schema with a reference resolved
  bool is_required = false;
  bool has_parts = false;  // its nested keys have separate rows
};

// Returns the keys in the order of the schema.
//
// Owner    rows point into `root`, which must outlive them
std::vector<SchemaRow> schema_rows(const nlohmann::ordered_json& root);

// Resolves a local "$ref"; returns the schema itself if it has none.
const nlohmann::ordered_json& resolved_schema(const nlohmann::ordered_json& schema,
                                              const nlohmann::ordered_json& root);

// Returns the keyword's value, or null.
const nlohmann::ordered_json* schema_keyword(const nlohmann::ordered_json& schema,
                                             const char* name);

// Returns the description of the key; "" if it has none.
std::string schema_doc(const SchemaRow& row);

// Largest nesting depth in tables, because a schema may refer to itself.
inline constexpr int kMaxSchemaDepth = 8;

}  // namespace tenon
