// SPDX-License-Identifier: Apache-2.0
//
// Formats numbers with a noun: "1 step", "3 steps".
// Threads: any.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace tenon {

// Returns "1 step", "3 steps". `plural` is for nouns whose plural is not formed with "s".
template <std::integral Count>
std::string counted(Count count, std::string_view noun, std::string_view plural = {}) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) {
    return text.append(noun);
  }
  return plural.empty() ? text.append(noun).append("s") : text.append(plural);
}

}  // namespace tenon
