// SPDX-License-Identifier: Apache-2.0
//
// Files with one JSON object a line, each of which starts with the step that it belongs to.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

// Returns the step of a line {"step":N,...}; nothing for any other line.
inline std::optional<uint64_t> step_of_line(std::string_view line) {
  constexpr std::string_view kStart = "{\"step\":";
  if (line.substr(0, kStart.size()) != kStart) {
    return std::nullopt;
  }
  uint64_t step = 0;
  const char* const last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data() + kStart.size(), last, step);
  const bool is_number = error == std::errc() && end != last && (*end == ',' || *end == '}');
  return is_number ? std::optional(step) : std::nullopt;
}
