// SPDX-License-Identifier: Apache-2.0

#include "host/json/schema_keyword.hpp"

#include <nlohmann/json.hpp>

namespace tenon {
namespace {

bool has_type(const nlohmann::json& value, KeywordType type) {
  switch (type) {
    case KeywordType::kAny:
      return true;
    case KeywordType::kObject:
      return value.is_object();
    case KeywordType::kArray:
      return value.is_array();
    case KeywordType::kString:
      return value.is_string();
    case KeywordType::kNumber:
      return value.is_number();
    case KeywordType::kBoolean:
      return value.is_boolean();
  }
  return false;
}

}  // namespace

const nlohmann::json* find_keyword(const nlohmann::json& schema,
                                   const char* name,
                                   KeywordType type) {
  if (!schema.is_object()) {
    return nullptr;
  }
  const auto found = schema.find(name);
  return found != schema.end() && has_type(*found, type) ? &*found : nullptr;
}

}  // namespace tenon
