// SPDX-License-Identifier: Apache-2.0
//
// Scanners for the split patterns of byte-level vocabularies. Each gives the same matches as the
// regular expression above it, from left to right, without a regular expression engine.
// Invariant: a scanner reads nothing outside of [p, end), and the text is valid UTF-8.
// Threads: stateless functions, from any thread.
#pragma once

#include <array>
#include <cstdint>

#include "unicode_table.hpp"
#include "utf8.hpp"

namespace tenon {

// What patterns ask of a code point, as bits.
enum WordClass : uint32_t {
  kClassL = 1,        // \p{L}
  kClassN = 2,        // \p{N}
  kClassS = 4,        // \s
  kClassBreak = 8,    // [\r\n]
  kClassM = 16,       // \p{M}
  kClassPS = 32,      // \p{P}, \p{S}
  kClassUpper = 64,   // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kClassLower = 128,  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};

inline uint32_t word_class_of(uint32_t flags) {
  const uint32_t category = 1u << (flags & kCategoryMask);
  constexpr uint32_t kBoth = category_bit(Category::kLm) | category_bit(Category::kLo) | kMarks;
  constexpr uint32_t kUpper = kBoth | category_bit(Category::kLu) | category_bit(Category::kLt);
  constexpr uint32_t kLower = kBoth | category_bit(Category::kLl);
  return ((category & kLetters) != 0 ? kClassL : 0u) | ((category & kNumbers) != 0 ? kClassN : 0u) |
         ((flags & kSpace) != 0 ? kClassS : 0u) | ((category & kMarks) != 0 ? kClassM : 0u) |
         ((category & (kPunctuations | kSymbols)) != 0 ? kClassPS : 0u) |
         ((category & kUpper) != 0 ? kClassUpper : 0u) |
         ((category & kLower) != 0 ? kClassLower : 0u);
}

constexpr uint8_t ascii_word_class(int c) {
  const bool is_upper = c >= 'A' && c <= 'Z';
  const bool is_lower = c >= 'a' && c <= 'z';
  if (is_upper || is_lower) {
    return static_cast<uint8_t>(kClassL | (is_upper ? kClassUpper : kClassLower));
  }
  if (c >= '0' && c <= '9') {
    return kClassN;
  }
  if (c == '\r' || c == '\n') {
    return kClassS | kClassBreak;
  }
  if (c == ' ' || c == '\t' || c == '\v' || c == '\f') {
    return kClassS;
  }
  return c > ' ' && c < 0x7F ? static_cast<uint8_t>(kClassPS) : uint8_t{0};
}

struct AsciiClasses {
  std::array<uint8_t, 128> values{};
  constexpr AsciiClasses() {
    for (int c = 0; c < 128; ++c) {
      values[static_cast<size_t>(c)] = ascii_word_class(c);
    }
  }
};
inline constexpr AsciiClasses kAsciiClasses{};

// Scanners whose matches are rare have skip(p, end): the first byte at which a match may start.
struct ScanEverywhere {
  static const char* skip(const char* p, const char* /*end*/) { return p; }
};

struct WordUnit {
  uint32_t classes;
  uint32_t size;
  bool is(uint32_t wanted) const { return (classes & wanted) != 0; }
};

inline WordUnit word_unit(const char* p) {
  const auto byte = static_cast<unsigned char>(*p);
  if (byte < 0x80) {
    return {kAsciiClasses.values[byte], 1};
  }
  return {word_class_of(flags_of(utf8_read(p))), static_cast<uint32_t>(utf8_size(byte))};
}

// End of the longest run of code points in one of the classes.
inline const char* class_run(const char* p, const char* end, uint32_t classes) {
  while (p < end) {
    const WordUnit unit = word_unit(p);
    if (!unit.is(classes)) {
      break;
    }
    p += unit.size;
  }
  return p;
}

// End of the longest run of code points in none of the classes.
inline const char* class_run_outside(const char* p, const char* end, uint32_t classes) {
  while (p < end) {
    const WordUnit unit = word_unit(p);
    if (unit.is(classes)) {
      break;
    }
    p += unit.size;
  }
  return p;
}

// The bytes of `chars` that follow, for [\r\n]* and [\r\n/]*.
inline const char* break_run(const char* p, const char* end, bool with_slash) {
  while (p < end && (*p == '\r' || *p == '\n' || (with_slash && *p == '/'))) {
    ++p;
  }
  return p;
}

// Up to `most` code points of \p{N}.
inline const char* number_run(const char* p, const char* end, int most) {
  for (int i = 0; i < most && p < end; ++i) {
    const WordUnit unit = word_unit(p);
    if (!unit.is(kClassN)) {
      break;
    }
    p += unit.size;
  }
  return p;
}

enum class Letters { kLowerCase, kAnyCase };

// End of 's, 't, 're, 've, 'm, 'll or 'd at `p`; null if there is none. With any case, U+017F is an
// s.
inline const char* contraction(const char* p, const char* end, Letters letters) {
  if (end - p < 2 || *p != '\'') {
    return nullptr;
  }
  const auto lower = [&](const char* q) -> char {
    if (q >= end) {
      return 0;
    }
    return letters == Letters::kAnyCase && *q >= 'A' && *q <= 'Z' ? static_cast<char>(*q | 0x20)
                                                                  : *q;
  };
  const char first = lower(p + 1);
  const char second = lower(p + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return p + 2;
  }
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l')) {
    return p + 3;
  }
  if (letters == Letters::kAnyCase && end - p >= 3 && p[1] == '\xC5' && p[2] == '\xBF') {
    return p + 3;
  }
  return nullptr;
}

enum class Breaks {
  kAsSpace,    // \s+(?!\S)|\s+
  kFirst,      // \s*[\r\n]+|\s+(?!\S)|\s+
  kAtTextEnd,  // \s++$|\s*[\r\n]|\s+(?!\S)|\s
};

// The match that starts with the white space at `p`.
inline const char* space_match(const char* p, const char* end, Breaks breaks) {
  const char* q = p;
  const char* last = p;             // start of the last code point
  const char* break_end = nullptr;  // end of the last [\r\n]
  while (q < end) {
    const WordUnit unit = word_unit(q);
    if (!unit.is(kClassS)) {
      break;
    }
    last = q;
    q += unit.size;
    if (unit.is(kClassBreak)) {
      break_end = q;
    }
  }
  if (breaks == Breaks::kAtTextEnd && q == end) {
    return q;
  }
  if (breaks != Breaks::kAsSpace && break_end != nullptr) {
    return break_end;
  }
  return q == end || last == p ? q : last;
}

// '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct Gpt2Scanner : ScanEverywhere {
  static constexpr bool kAnyLead = false;
  static constexpr bool kCased = false;
  static constexpr bool kSuffix = false;
  static const char* next(const char* p, const char* end) {
    if (const char* q = contraction(p, end, Letters::kLowerCase)) {
      return q;
    }
    const char* word = *p == ' ' && end - p > 1 ? p + 1 : p;
    const WordUnit unit = word_unit(word);
    if (unit.is(kClassL)) {
      return class_run(word + unit.size, end, kClassL);
    }
    if (unit.is(kClassN)) {
      return class_run(word + unit.size, end, kClassN);
    }
    if (!unit.is(kClassS)) {
      return class_run_outside(word + unit.size, end, kClassL | kClassN | kClassS);
    }
    return space_match(p, end, Breaks::kAsSpace);
  }
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?WORD+|\p{N}{1,Digits}|
// ?[^\s\p{N}WORD]+[\r\n]*|, then white space; WORD is \p{L} or [\p{L}\p{M}].
template <int kDigits, Breaks kBreaks, uint32_t kWord = kClassL>
struct Cl100kScanner : ScanEverywhere {
  static constexpr bool kAnyLead = true;
  static constexpr bool kCased = false;
  static constexpr bool kSuffix = false;
  static const char* next(const char* p, const char* end) {
    constexpr uint32_t kNoOther = kWord | kClassN | kClassS;
    if (const char* q = contraction(p, end, Letters::kAnyCase)) {
      return q;
    }
    const WordUnit unit = word_unit(p);
    if (unit.is(kWord)) {
      return class_run(p + unit.size, end, kWord);
    }
    if (unit.is(kClassN)) {
      return number_run(p, end, kDigits);
    }
    const char* after = p + unit.size;
    const WordUnit second = after < end ? word_unit(after) : WordUnit{kClassS, 0};
    if (!unit.is(kClassBreak) && second.is(kWord)) {
      return class_run(after + second.size, end, kWord);
    }
    if (!unit.is(kClassS) || (*p == ' ' && !second.is(kNoOther))) {
      return break_run(class_run_outside(after, end, kNoOther), end, false);
    }
    return space_match(p, end, kBreaks);
  }
};

// [^\r\n\p{L}\p{N}]?[Upper]*[Lower]+SUFFIX|[^\r\n\p{L}\p{N}]?[Upper]+[Lower]*SUFFIX|
// \p{N}{1,Digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// where SUFFIX is (?i:'s|'t|'re|'ve|'m|'ll|'d)? or nothing.
template <int kDigits, bool kWithSuffix>
struct O200kScanner : ScanEverywhere {
  static constexpr bool kAnyLead = true;
  static constexpr bool kCased = true;
  static constexpr bool kSuffix = kWithSuffix;
  static const char* next(const char* p, const char* end) {
    const WordUnit unit = word_unit(p);
    const bool may_lead = !unit.is(kClassBreak | kClassL | kClassN);
    const char* after = p + unit.size;
    const char* q = may_lead ? lower_word(after, end) : nullptr;
    if (q == nullptr && unit.is(kClassUpper | kClassLower)) {
      q = lower_word(p, end);
    }
    if (q == nullptr && may_lead) {
      q = upper_word(after, end);
    }
    if (q == nullptr && unit.is(kClassUpper)) {
      q = upper_word(p, end);
    }
    if (q != nullptr) {
      const char* suffix = kWithSuffix ? contraction(q, end, Letters::kAnyCase) : nullptr;
      return suffix != nullptr ? suffix : q;
    }
    if (unit.is(kClassN)) {
      return number_run(p, end, kDigits);
    }
    const bool is_other_next =
        *p == ' ' && after < end && !word_unit(after).is(kClassL | kClassN | kClassS);
    if (!unit.is(kClassS) || is_other_next) {
      return break_run(class_run_outside(after, end, kClassL | kClassN | kClassS), end, true);
    }
    return space_match(p, end, Breaks::kFirst);
  }

 private:
  // [Upper]*[Lower]+; null if it does not match.
  static const char* lower_word(const char* p, const char* end) {
    const char* both_end = nullptr;  // end of the last code point that is in both classes
    while (p < end) {
      const WordUnit unit = word_unit(p);
      if (!unit.is(kClassUpper)) {
        if (unit.is(kClassLower)) {
          return class_run(p + unit.size, end, kClassLower);
        }
        break;
      }
      p += unit.size;
      if (unit.is(kClassLower)) {
        both_end = p;
      }
    }
    return both_end;
  }
  // [Upper]+[Lower]*; null if it does not match.
  static const char* upper_word(const char* p, const char* end) {
    const char* q = class_run(p, end, kClassUpper);
    return q == p ? nullptr : class_run(q, end, kClassLower);
  }
};

// The third pattern of DeepSeek V3; null where it does not match:
// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
struct DeepSeekScanner : ScanEverywhere {
  static constexpr bool kAnyLead = true;  // ASCII: after punctuation, [A-Za-z]+; see fast_word()
  static constexpr bool kCased = false;
  static constexpr bool kSuffix = false;
  static const char* next(const char* p, const char* end) {
    const WordUnit unit = word_unit(p);
    const char* after = p + unit.size;
    if (unit.size == 1 && unit.is(kClassPS)) {
      const char* q = after;
      while (q < end && static_cast<unsigned char>(*q) < 0x80 && word_unit(q).is(kClassL)) {
        ++q;
      }
      if (q > after) {
        return q;
      }
    }
    if (!unit.is(kClassBreak | kClassL | kClassPS) && after < end &&
        word_unit(after).is(kClassL | kClassM)) {
      return class_run(after, end, kClassL | kClassM);
    }
    if (unit.is(kClassL | kClassM)) {
      return class_run(after, end, kClassL | kClassM);
    }
    if (unit.is(kClassPS)) {
      return break_run(class_run(after, end, kClassPS), end, false);
    }
    if (*p == ' ' && after < end && word_unit(after).is(kClassPS)) {
      return break_run(class_run(after, end, kClassPS), end, false);
    }
    return unit.is(kClassS) ? space_match(p, end, Breaks::kFirst) : nullptr;
  }
};

// The first byte at or after `p` that is an ASCII digit or not ASCII; `end` if there is none.
inline const char* skip_to_digit(const char* p, const char* end) {
  const __m128i below = _mm_set1_epi8('0' - 1);
  const __m128i above = _mm_set1_epi8('9' + 1);
  while (end - p >= 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i digits =
        _mm_and_si128(_mm_cmpgt_epi8(bytes, below), _mm_cmplt_epi8(bytes, above));
    const int found = _mm_movemask_epi8(_mm_or_si128(digits, bytes));  // the high bit: not ASCII
    if (found != 0) {
      return p + __builtin_ctz(static_cast<unsigned>(found));
    }
    p += 16;
  }
  while (p < end && static_cast<unsigned char>(*p) < 0x80 && (*p < '0' || *p > '9')) {
    ++p;
  }
  return p;
}

// \p{N}{1,Digits}; null where it does not match.
template <int kDigits>
struct NumberScanner {
  static const char* skip(const char* p, const char* end) { return skip_to_digit(p, end); }
  static const char* next(const char* p, const char* end) {
    const char* q = number_run(p, end, kDigits);
    return q == p ? nullptr : q;
  }
};

// [一-龥぀-ゟ゠-ヿ]+; null where it does not match.
struct CjkScanner {
  static const char* skip(const char* p, const char* end) { return skip_ascii(p, end); }
  static const char* next(const char* p, const char* end) {
    const char* q = p;
    while (q < end && static_cast<unsigned char>(*q) >= 0xE3) {
      const char32_t code = utf8_read(q);
      if (!((code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF))) {
        break;
      }
      q += 3;
    }
    return q == p ? nullptr : q;
  }
};

// One code point with char::is_numeric; null where there is none.
struct DigitScanner {
  static const char* skip(const char* p, const char* end) { return skip_to_digit(p, end); }
  static const char* next(const char* p, const char* /*end*/) {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte < 0x80) {
      return byte >= '0' && byte <= '9' ? p + 1 : nullptr;
    }
    return (flags_of(utf8_read(p)) & kNumeric) != 0 ? p + utf8_size(byte) : nullptr;
  }
};

}  // namespace tenon
