// SPDX-License-Identifier: Apache-2.0

#include "host/json/schema_defaults.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_visit.hpp"
#include "host/json/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tenon {
namespace {

using nlohmann::json;

// True if the schema allows integers but not other numbers.
bool wants_integer(const json& schema) {
  const auto type = schema.find("type");
  if (type == schema.end()) {
    return false;
  }
  const auto has = [&type](const char* name) {
    return *type == name ||
           (type->is_array() && std::find(type->begin(), type->end(), name) != type->end());
  };
  return has("integer") && !has("number");
}

void fill(json& object, const json& properties, const std::string& pointer, PlaceMap& places) {
  for (const auto& [key, described] : properties.items()) {
    if (!described.is_object()) {
      continue;
    }
    if (described.contains("x-tenon-unavailable")) {
      object.erase(key);
      continue;
    }
    const auto preset = described.find("default");
    if (preset != described.end() && !object.contains(key)) {
      object[key] = *preset;
      places.set(join_pointer(pointer, key), Place{});
    }
  }
}

}  // namespace

void apply_defaults(json& value, const json& schema, const std::string& pointer, PlaceMap& places) {
  visit_schema(
      value, schema, pointer, [&places](json& at, const json& rules, const std::string& where) {
        if (rules.contains("x-tenon-component")) {
          return false;  // the options of a component have another schema
        }
        if (at.is_number_float() && wants_integer(rules)) {
          const double number = at.get<double>();
          if (std::trunc(number) == number && std::abs(number) < 9007199254740992.0) {  // 2^53
            at = static_cast<std::int64_t>(number);
          }
        }
        if (const auto meaning = rules.find("x-tenon-null");
            at.is_null() && meaning != rules.end()) {
          at = *meaning;
        }
        const auto properties = rules.find("properties");
        if (at.is_object() && properties != rules.end() && properties->is_object()) {
          fill(at, *properties, where, places);
        }
        return true;
      });
}

}  // namespace tenon
