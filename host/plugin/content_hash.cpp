// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/content_hash.hpp"

#include <array>
#include <cstdint>
#include <fstream>

namespace tenon {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr Uint128 kOffset =
    static_cast<Uint128>(0x6c62272e07bb0142ull) << 64 | 0x62b821756295c58dull;
constexpr Uint128 kPrime = static_cast<Uint128>(1) << 88 | 0x13b;

}  // namespace

std::optional<std::string> content_hash(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 1 << 16> buffer;
  Uint128 hash = kOffset;
  while (in) {
    in.read(buffer.data(), buffer.size());
    for (std::streamsize i = 0; i < in.gcount(); ++i) {
      hash = (hash ^ static_cast<uint8_t>(buffer[static_cast<std::size_t>(i)])) * kPrime;
    }
  }
  if (!in.eof()) {
    return std::nullopt;
  }
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 124; shift >= 0; shift -= 4) {
    text += kDigits[static_cast<std::size_t>(hash >> shift & 15)];
  }
  return text;
}

}  // namespace tenon
