// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/shell_text.hpp"

#include <string_view>

namespace tenon {

std::string shell_text(std::span<const std::string> words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  std::string text;
  for (const std::string& word : words) {
    text += text.empty() ? "" : " ";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) {
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    text += '\'';
  }
  return text;
}

}  // namespace tenon
