// SPDX-License-Identifier: Apache-2.0
#include "host/json/one_or_named.hpp"

#include "host/json/schema_keyword.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon {

using nlohmann::json;

bool is_one(const json& value, const std::vector<std::string>& keys_of_one) {
  return value.empty() ||
         std::ranges::any_of(keys_of_one,
                             [&value](const std::string& key) { return value.contains(key); }) ||
         std::ranges::any_of(value, [](const json& entry) { return !entry.is_object(); });
}

FormOfObject form_of_object(const json& value, const json& schema) {
  const json* const keyword = find_keyword(schema, "x-tenon-one-or-named", KeywordType::kObject);
  if (keyword == nullptr || !value.is_object()) {
    return {};
  }
  std::vector<std::string> keys;
  if (const json* const list = find_keyword(*keyword, "keys_of_one", KeywordType::kArray)) {
    for (const json& key : *list) {
      keys.push_back(key.is_string() ? key.get<std::string>() : "");
    }
  }
  const bool is_single = is_one(value, keys);
  return {.one = find_keyword(*keyword, "one", KeywordType::kObject),
          .names = is_single ? nullptr : find_keyword(*keyword, "names", KeywordType::kObject),
          .is_one = is_single};
}

}  // namespace tenon
