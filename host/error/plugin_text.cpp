// SPDX-License-Identifier: Apache-2.0
#include "host/error/plugin_text.hpp"

#include "host/error/utf8.hpp"

#include <algorithm>

namespace tenon {
namespace {

// `character` is the bytes of one character. Terminals also obey U+0080 to U+009F.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  return first < 0x20 || first == 0x7f ||
         (first == 0xc2 && character.size() == 2 &&
          static_cast<unsigned char>(character[1]) < 0xa0);
}

std::string hex(char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {kDigits[value >> 4], kDigits[value & 15]};
}

// `bytes` is one invalid byte, or one control character.
std::string escaped(std::string_view bytes) {
  const bool is_above_ascii = bytes.size() == 2 || bytes.front() == 0x7f;
  return (is_above_ascii ? "\\u00" : "\\x") + hex(bytes.back());
}

enum class Breaks { kKeep, kEscape };

std::string printable(std::string_view text, Breaks breaks) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    const bool is_break = text.front() == '\n' || text.front() == '\t';
    const bool is_kept = is_break && breaks == Breaks::kKeep;
    if (size == 0 || (is_control(character) && !is_kept)) {
      result += escaped(character);
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
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

std::string printable_text(std::string_view text) {
  return printable(text, Breaks::kKeep);
}

std::string printable_line(std::string_view text) {
  return printable(text, Breaks::kEscape);
}

std::string plugin_text(std::string_view text) {
  const std::string_view kept = cut(text, kMaxPluginText);
  std::string result = printable_text(kept);
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
      return "has the byte " + escaped(rest.substr(0, 1)) + ", which is not UTF-8";
    }
    if (is_control(rest.substr(0, size))) {
      return "has the control character " + escaped(rest.substr(0, size));
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
