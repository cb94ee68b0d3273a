// SPDX-License-Identifier: Apache-2.0
//
// Patterns of names in recipes: `*`, `?` and `[...]` as in a shell, but `*` and `?` also match '/'.
// Threads: any.
#pragma once

#include <algorithm>
#include <fnmatch.h>
#include <string>
#include <vector>

namespace tenon {

inline bool matches_pattern(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

inline bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return matches_pattern(pattern, name); });
}

}  // namespace tenon
