// SPDX-License-Identifier: Apache-2.0
//
// A value and its JSON Schema walked side by side, for whoever has to find what the schema marks:
// defaults, paths, components. Tolerates values that break the schema.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

namespace tenon {

// The form of oneOf or anyOf that the value fits, or null where there is none.
//
// Owner    borrowed from `schema`
const nlohmann::json* fitting_variant(const nlohmann::json& value, const nlohmann::json& schema);

// Called with a value, the schema that describes it, and its pointer. Returns whether to go on
// below the value.
using SchemaVisit = std::function<bool(
    nlohmann::json& value, const nlohmann::json& schema, const std::string& pointer)>;

// Calls `visit` for a value and all below it that the schema describes, parents first. What
// `visit` adds to a value is visited too.
void visit_schema(nlohmann::json& value,
                  const nlohmann::json& schema,
                  const std::string& pointer,
                  const SchemaVisit& visit);

}  // namespace tenon
