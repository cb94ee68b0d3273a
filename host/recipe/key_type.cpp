// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/key_type.hpp"

#include <string_view>

namespace tenon {

using nlohmann::json;

KeySchema size_schema() {
  return {{"type", {"integer", "string"}},
          {"minimum", 1},
          {"pattern", "^[0-9]+(\\.[0-9]+)? ?([KMGT]i?B)?$"}};
}

std::int64_t bytes_of(const json& size) {
  if (size.is_number()) {
    return size.get<std::int64_t>();
  }
  const auto& text = size.get_ref<const std::string&>();
  std::size_t end = 0;
  double value = std::stod(text, &end);
  const std::size_t unit = text.find_first_not_of(' ', end);
  if (unit != std::string::npos && text[unit] != 'B') {
    const double base = text[unit + 1] == 'i' ? 1024 : 1000;
    for (std::size_t i = 0; i <= std::string_view("KMGT").find(text[unit]); ++i) {
      value *= base;
    }
  }
  return static_cast<std::int64_t>(std::min(value, 9e18));
}

}  // namespace tenon
