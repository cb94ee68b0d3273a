// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/stop_strings.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace tenon {

std::string StopStrings::push(const std::string& piece) {
  if (is_found_) {
    return "";
  }
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& string : strings_) {
    first = std::min(first, held_.find(string));
  }
  if (first != std::string::npos) {
    is_found_ = true;
    held_.resize(first);
    return std::exchange(held_, "");
  }
  // The longest end that is the start of a string.
  size_t open = 0;
  for (const std::string& string : strings_) {
    for (size_t n = std::min(held_.size(), string.size() - 1); n > open; --n) {
      if (held_.ends_with(std::string_view(string).substr(0, n))) {
        open = n;
      }
    }
  }
  std::string text = held_.substr(0, held_.size() - open);
  held_.erase(0, text.size());
  return text;
}

std::string StopStrings::finish() {
  return is_found_ ? "" : std::exchange(held_, "");
}

}  // namespace tenon
