// SPDX-License-Identifier: Apache-2.0
//
// Patterns of names in recipes: `*`, `?` and `[...]` as in a shell, but `*` and `?` also match '/'.
// Threads: any.
#pragma once

#include <fnmatch.h>
#include <string>

namespace tenon {

inline bool matches_pattern(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace tenon
