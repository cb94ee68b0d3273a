// SPDX-License-Identifier: Apache-2.0
//
// Validates values with a complete implementation of JSON Schema (draft 7). It complements
// schema_check, which has better messages but does not support all keywords.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tenon {

class SchemaArbiter {
 public:
  // `whose` names the component and the plugin's file, for the message.
  //
  // Errors   plugin.bad_schema if the schema is invalid, or has a pattern that is not a regular
  //          expression
  SchemaArbiter(const nlohmann::json& schema, const std::string& whose);
  ~SchemaArbiter();
  SchemaArbiter(const SchemaArbiter&) = delete;
  SchemaArbiter& operator=(const SchemaArbiter&) = delete;
  SchemaArbiter(SchemaArbiter&&) = delete;
  SchemaArbiter& operator=(SchemaArbiter&&) = delete;

  // Adds one problem, for the innermost error, if the schema rejects the value (recipe.rejected).
  // Adds recipe.out_of_range if the schema has patterns and a string exceeds kMaxPatternBytes.
  void check(const nlohmann::json& value,
             const std::string& pointer,
             const PlaceMap& places,
             ProblemList& problems) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
