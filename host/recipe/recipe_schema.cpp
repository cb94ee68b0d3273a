// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_schema.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"
#include "host/recipe/recipe_sections.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon {

using nlohmann::json;

const json& recipe_schema() {
  static const json schema = ordered_recipe_schema();
  return schema;
}

std::string recipe_schema_text() {
  return ordered_recipe_schema().dump(2);
}

std::string as_name(std::string_view text) {
  std::string name(text.substr(0, 100));
  for (char& c : name) {
    const bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '-';
    c = is_good ? c : '_';
  }
  if (name.empty() || name.front() == '-') {
    name.insert(0, "_");
  }
  return name.substr(0, 100);
}

std::string default_name(const std::string& type) {
  return as_name(std::string_view(type).substr(type.rfind('/') + 1));  // npos + 1 is 0
}

std::string mix_name(const std::string& type, std::size_t number) {
  return formatted("{}-{}", default_name(type).substr(0, 30), number + 1);
}

}  // namespace tenon
