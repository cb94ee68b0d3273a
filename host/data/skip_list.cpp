// SPDX-License-Identifier: Apache-2.0
#include "host/data/skip_list.hpp"

#include "host/text/name_pattern.hpp"

#include <utility>

namespace tenon {

SkipList::SkipList(std::vector<WindowName> names)
    : names_(std::move(names)), has_matched_(names_.size(), false) {}

bool SkipList::matches(const Window& window) {
  bool is_matched = false;
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto* const pattern = std::get_if<std::string>(&names_[i]);
    const bool is_meant = pattern != nullptr ? matches_pattern(*pattern, window.label())
                                             : std::get<uint64_t>(names_[i]) == window.id();
    if (is_meant) {
      has_matched_[i] = true;
      is_matched = true;
    }
  }
  return is_matched;
}

std::vector<std::string> SkipList::unmatched() const {
  std::vector<std::string> texts;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!has_matched_[i]) {
      const auto* const pattern = std::get_if<std::string>(&names_[i]);
      texts.push_back(pattern != nullptr ? "\"" + *pattern + "\""
                                         : std::to_string(std::get<uint64_t>(names_[i])));
    }
  }
  return texts;
}

}  // namespace tenon
