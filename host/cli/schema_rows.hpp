// SPDX-License-Identifier: Apache-2.0
//
// The keys that a JSON Schema describes, one by one and with those of objects inside, for tables
// that people read. How a row is worded is for the tables to say.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

struct SchemaRow {
  std::string path;                      // "range.first", "layers[].width"
  const nlohmann::ordered_json* given;   // the key's schema as it is written
  const nlohmann::ordered_json* schema;  // what it stands for, where it is a reference
  bool is_required = false;
  bool has_parts = false;  // the keys inside it are rows of their own
};

// In the order of the schema. Pointers lead into `root`, which outlives the rows.
std::vector<SchemaRow> schema_rows(const nlohmann::ordered_json& root);

// What a local "$ref" stands for; the schema itself where it is none.
const nlohmann::ordered_json& resolved_schema(const nlohmann::ordered_json& schema,
                                              const nlohmann::ordered_json& root);

// The keyword's value, or null.
const nlohmann::ordered_json* schema_keyword(const nlohmann::ordered_json& schema,
                                             const char* name);

// What the schema says of the key, "" where it says nothing.
std::string schema_doc(const SchemaRow& row);

// A schema may refer to itself: how deep tables look into it.
inline constexpr int kMaxSchemaDepth = 8;

}  // namespace tenon
