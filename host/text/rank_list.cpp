// SPDX-License-Identifier: Apache-2.0
#include "host/text/rank_list.hpp"

#include <vector>

namespace tenon {

std::string rank_list(std::span<const uint32_t> ranks) {
  std::vector<std::string> runs;  // consecutive ranks: three or more become "A to B"
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    if (end - i >= 3) {
      runs.push_back(std::to_string(ranks[i]) + " to " + std::to_string(ranks[end - 1]));
    } else {
      for (size_t k = i; k < end; ++k) {
        runs.push_back(std::to_string(ranks[k]));
      }
    }
    i = end;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < runs.size(); ++i) {
    text += i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ";
    text += runs[i];
  }
  return text;
}

}  // namespace tenon
