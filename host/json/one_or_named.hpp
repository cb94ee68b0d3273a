// SPDX-License-Identifier: Apache-2.0
//
// The keyword x-tenon-one-or-named: a value is one object, or an object of such objects by name.
//
//     {"x-tenon-one-or-named": {"one": SCHEMA, "keys_of_one": ["options", "mix"],
//                               "names": {"pattern": "^[a-z]+$", "description": "letters"}}}
//
// Threads: every function may be called from any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Returns whether `value` is one object: it is empty, has one of the keys `keys_of_one`, which
// cannot be names, or has an entry that is not an object.
bool is_one(const nlohmann::json& value, const std::vector<std::string>& keys_of_one);

// What the keyword demands of an object.
struct FormOfObject {
  const nlohmann::json* one = nullptr;    // schema of the object, or of each object by name
  const nlohmann::json* names = nullptr;  // what names must be; null for one object, or any names
  bool is_one = false;
};

// Returns what `schema` demands of `value` by the keyword. `one` is null if the schema does not
// have the keyword, or `value` is not an object.
//
// Owner    borrowed from `schema`
FormOfObject form_of_object(const nlohmann::json& value, const nlohmann::json& schema);

}  // namespace tenon
