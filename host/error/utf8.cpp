// SPDX-License-Identifier: Apache-2.0

#include "host/error/utf8.hpp"

#include <algorithm>
#include <cstddef>

namespace tenon {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::size_t utf8_size(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xC2 || first > 0xF4) {
    return 0;
  }
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < size) {
    return 0;
  }
  // The second byte reveals overlong forms, surrogates, and code points beyond U+10FFFF.
  const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) {
    return 0;
  }
  for (std::size_t i = 2; i < size; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) {
      return 0;
    }
  }
  return size;
}

std::size_t invalid_utf8_at(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_size(text.substr(at));
    if (size == 0) {
      return at;
    }
    at += size;
  }
  return std::string_view::npos;
}

bool is_utf8(std::string_view text) noexcept {
  return invalid_utf8_at(text) == std::string_view::npos;
}

std::string as_utf8(std::string text) {
  if (is_utf8(text)) {
    return text;
  }
  std::string repaired;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t size = utf8_size(rest);
    repaired += size == 0 ? kReplacement : rest.substr(0, size);
    rest.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return repaired;
}

}  // namespace tenon
