// SPDX-License-Identifier: Apache-2.0
#include "byte_level.hpp"

#include <array>

#include "../engine/utf8.hpp"

namespace tenon {
namespace {

struct LevelAlphabet {
  std::array<std::string, 256> texts;
  std::array<int, 512> bytes{};

  LevelAlphabet() {
    bytes.fill(-1);
    char32_t next = 256;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool is_visible =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t code = is_visible ? static_cast<char32_t>(byte) : next++;
      texts[byte] = utf8_of(code);
      bytes[code] = static_cast<int>(byte);
    }
  }
};

const LevelAlphabet& alphabet() {
  static const LevelAlphabet the_alphabet;
  return the_alphabet;
}

}  // namespace

std::string_view byte_level_text(unsigned char byte) {
  return alphabet().texts[byte];
}

int byte_of_level_code(char32_t code) {
  return code < alphabet().bytes.size() ? alphabet().bytes[code] : -1;
}

bool append_level_bytes(std::string& out, std::string_view text) {
  const size_t before = out.size();
  for (size_t i = 0; i < text.size();) {
    const int byte = byte_of_level_code(utf8_read(text.data() + i));
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
    i += utf8_size(static_cast<unsigned char>(text[i]));
  }
  return true;
}

}  // namespace tenon
