// SPDX-License-Identifier: Apache-2.0
//
// Walks a value and its JSON Schema in parallel, to find the parts that the schema marks: defaults,
// paths, components. Tolerates values that violate the schema.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

namespace tenon {

// Returns the first variant of oneOf or anyOf that the value matches, or null if there is none.
//
// Owner    borrowed from `schema`
const nlohmann::json* fitting_variant(const nlohmann::json& value, const nlohmann::json& schema);

// Called with a value, its schema and its pointer. Returns true to also visit the parts of the
// value.
using SchemaVisit = std::function<bool(
    nlohmann::json& value, const nlohmann::json& schema, const std::string& pointer)>;

// Calls `visit` for a value and for all of its parts that the schema describes, parents first. Keys
// that `visit` adds to a value are visited too.
void visit_schema(nlohmann::json& value,
                  const nlohmann::json& schema,
                  const std::string& pointer,
                  const SchemaVisit& visit);

}  // namespace tenon
