// SPDX-License-Identifier: Apache-2.0
//
// UTF-8: checking, reading and writing of code points. Only the check takes arbitrary bytes.
// Threads: stateless functions, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <emmintrin.h>
#include <string>
#include <string_view>

namespace tenon {

constexpr size_t kNoOffset = static_cast<size_t>(-1);

// Bytes of the code point that starts with `lead`. The text is valid UTF-8.
inline size_t utf8_size(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

inline size_t utf8_size_of(char32_t code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

inline bool is_utf8_start(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// Reads the code point at `p` of valid UTF-8.
inline char32_t utf8_read(const char* p) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  if (b[0] < 0x80) {
    return b[0];
  }
  if (b[0] < 0xE0) {
    return static_cast<char32_t>((b[0] & 0x1F) << 6 | (b[1] & 0x3F));
  }
  if (b[0] < 0xF0) {
    return static_cast<char32_t>((b[0] & 0x0F) << 12 | (b[1] & 0x3F) << 6 | (b[2] & 0x3F));
  }
  return static_cast<char32_t>((b[0] & 0x07) << 18 | (b[1] & 0x3F) << 12 | (b[2] & 0x3F) << 6 |
                               (b[3] & 0x3F));
}

// The code point that ends before `end`; valid UTF-8 starts at or before it.
inline char32_t utf8_read_before(const char* end) {
  const char* p = end - 1;
  while (!is_utf8_start(*p)) {
    --p;
  }
  return utf8_read(p);
}

inline void utf8_append(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

inline std::string utf8_of(char32_t code) {
  std::string out;
  utf8_append(out, code);
  return out;
}

// What starts at a byte: the size of a valid code point, or, if there is none, 0 with the number of
// bytes that one replacement character stands for.
struct Utf8Unit {
  size_t size = 0;
  size_t num_bad = 0;
};

inline Utf8Unit utf8_unit(const char* p, const char* end) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  const auto left = static_cast<size_t>(end - p);
  const unsigned char lead = b[0];
  if (lead < 0x80) {
    return {1, 0};
  }
  const size_t size = lead >= 0xC2 && lead <= 0xDF   ? 2
                      : lead >= 0xE0 && lead <= 0xEF ? 3
                      : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                     : 0;
  if (size == 0) {
    return {0, 1};
  }
  // The second byte has a narrower range after some leads: no overlong forms, no surrogates.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < size; ++i) {
    if (i >= left || b[i] < (i == 1 ? low : 0x80) || b[i] > (i == 1 ? high : 0xBF)) {
      return {0, i};
    }
  }
  return {size, 0};
}

// End of the run of ASCII bytes that starts at `p`.
inline const char* skip_ascii(const char* p, const char* end) {
  while (end - p >= 16) {
    const int high = _mm_movemask_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    if (high != 0) {
      return p + __builtin_ctz(static_cast<unsigned>(high));
    }
    p += 16;
  }
  while (p < end && static_cast<unsigned char>(*p) < 0x80) {
    ++p;
  }
  return p;
}

// Offset of the first byte that is not valid UTF-8; kNoOffset if there is none.
inline size_t invalid_utf8(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while ((p = skip_ascii(p, end)) < end) {
    const Utf8Unit unit = utf8_unit(p, end);
    if (unit.size == 0) {
      return static_cast<size_t>(p - text.data());
    }
    p += unit.size;
  }
  return kNoOffset;
}

// Appends the text with U+FFFD for what is not valid UTF-8, one for each maximal part of a code
// point. Source: The Unicode Standard, section 3.9, "U+FFFD Substitution of Maximal Subparts".
inline void append_lossy_utf8(std::string& out, std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    const char* ascii = skip_ascii(p, end);
    out.append(p, ascii);
    p = ascii;
    if (p == end) {
      return;
    }
    const Utf8Unit unit = utf8_unit(p, end);
    if (unit.size > 0) {
      out.append(p, unit.size);
      p += unit.size;
    } else {
      out += "\xEF\xBF\xBD";
      p += unit.num_bad;
    }
  }
}

}  // namespace tenon
