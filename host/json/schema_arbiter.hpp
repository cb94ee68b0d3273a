// SPDX-License-Identifier: Apache-2.0
//
// A whole JSON Schema (draft 7) behind the walk of schema_check: the walk gives good messages for
// the keywords it knows, the arbiter has the last word on all of them.

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
  // `whose` names the component and its plugin's file, for the message.
  //
  // Errors   plugin.bad_schema if the schema is none, or has a pattern that is no regular
  //          expression
  SchemaArbiter(const nlohmann::json& schema, const std::string& whose);
  ~SchemaArbiter();
  SchemaArbiter(const SchemaArbiter&) = delete;
  SchemaArbiter& operator=(const SchemaArbiter&) = delete;
  SchemaArbiter(SchemaArbiter&&) = delete;
  SchemaArbiter& operator=(SchemaArbiter&&) = delete;

  // Adds one problem (recipe.rejected), the innermost, if the schema rejects the value.
  void check(const nlohmann::json& value,
             const std::string& pointer,
             const PlaceMap& places,
             std::vector<Problem>& problems) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
