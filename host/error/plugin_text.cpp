// SPDX-License-Identifier: Apache-2.0
#include "host/error/plugin_text.hpp"

#include "host/error/utf8.hpp"

#include <algorithm>

namespace tenon {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string escaped(char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {'\\', 'x', kDigits[value >> 4], kDigits[value & 15]};
}

// The start of `text`, at most `size` bytes, without a character that the cut would split.
std::string_view cut(std::string_view text, std::size_t size) {
  std::size_t end = std::min(size, text.size());
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  const std::size_t least = end > 3 ? end - 3 : 0;
  for (std::size_t i = end; i < text.size() && continues(i) && i > least;) {
    end = --i;
  }
  return text.substr(0, end);
}

}  // namespace

std::string plugin_text(std::string_view text) {
  const std::string_view kept = cut(text, kMaxPluginText);
  std::string result;
  for (std::string_view rest = kept; !rest.empty();) {
    const std::size_t size = utf8_size(rest);
    const bool is_break = rest.front() == '\n' || rest.front() == '\t';
    if (size == 0 || (is_control(rest.front()) && !is_break)) {
      result += escaped(rest.front());
    } else {
      result += rest.substr(0, size);
    }
    rest.remove_prefix(std::max<std::size_t>(size, 1));
  }
  if (kept.size() < text.size()) {
    result += "... (" + std::to_string(text.size() - kept.size()) + " more bytes)";
  }
  return result;
}

std::string name_problem(std::string_view name) {
  if (name.empty()) {
    return "is empty";
  }
  if (name.size() > kMaxPluginName) {
    return "has " + std::to_string(name.size()) + " bytes, at most " +
           std::to_string(kMaxPluginName) + " are allowed";
  }
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t size = utf8_size(rest);
    if (size == 0) {
      return "has the byte " + escaped(rest.front()) + ", which is not UTF-8";
    }
    if (is_control(rest.front())) {
      return "has the control character " + escaped(rest.front());
    }
    rest.remove_prefix(size);
  }
  return "";
}

std::string flags_problem(uint32_t flags, uint32_t known) {
  return (flags & ~known) == 0 ? ""
                               : "has flags " + std::to_string(flags) +
                                     ", of which this host knows only " + std::to_string(known);
}

}  // namespace tenon
