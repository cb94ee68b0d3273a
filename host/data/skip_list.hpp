// SPDX-License-Identifier: Apache-2.0
//
// The windows that a recipe skips: by label, with the wildcards * and ?, or by id. Records which of
// its entries have matched.
// Threads: one at a time.
#pragma once

#include "host/data/window.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tenon {

// A pattern of labels, or an id.
using WindowName = std::variant<std::string, uint64_t>;

class SkipList {
 public:
  SkipList() = default;
  explicit SkipList(std::vector<WindowName> names);

  // True if the window is to be skipped.
  bool matches(const Window& window);

  // Returns the entries that no window has matched, as written in the recipe.
  std::vector<std::string> unmatched() const;

 private:
  std::vector<WindowName> names_;
  std::vector<bool> has_matched_;
};

}  // namespace tenon
