// SPDX-License-Identifier: Apache-2.0
#include "host/text/joined.hpp"

namespace tenon {

std::string joined(const std::vector<std::string>& texts, std::string_view separator) {
  std::string result;
  for (size_t i = 0; i < texts.size(); ++i) {
    result.append(i == 0 ? std::string_view() : separator).append(texts[i]);
  }
  return result;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace tenon
