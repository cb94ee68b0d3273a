// SPDX-License-Identifier: Apache-2.0
//
// Tests of names in a state tree, which are paths.
// Threads: any.
#pragma once

#include <optional>
#include <string_view>

namespace tenon {

// Returns the rest of `name` after `prefix` and a '/'; nothing if it does not start with them.
inline std::optional<std::string_view> name_below(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  name.remove_prefix(prefix.size());
  if (!name.starts_with('/')) {
    return std::nullopt;
  }
  return name.substr(1);
}

// True if `name` is `prefix` or below it.
inline bool is_name_in(std::string_view name, std::string_view prefix) {
  return name == prefix || name_below(name, prefix).has_value();
}

}  // namespace tenon
