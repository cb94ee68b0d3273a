// SPDX-License-Identifier: Apache-2.0
#include "unicode_form.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "../engine/unicode_table.hpp"

namespace tenon {
namespace {

constexpr char32_t kSBase = 0xAC00;
constexpr char32_t kLBase = 0x1100;
constexpr char32_t kVBase = 0x1161;
constexpr char32_t kTBase = 0x11A7;
constexpr char32_t kLCount = 19;
constexpr char32_t kVCount = 21;
constexpr char32_t kTCount = 28;
constexpr char32_t kSCount = kLCount * kVCount * kTCount;

bool is_hangul(char32_t code) {
  return code >= kSBase && code < kSBase + kSCount;
}

struct ClassedCode {
  RewrittenCode code;
  uint8_t combining;
};

std::vector<ClassedCode> decompose(std::string_view text, bool is_compatible) {
  std::vector<ClassedCode> out;
  out.reserve(text.size());
  size_t pending = 0;  // start of the part that is not sorted yet
  const auto sort_pending = [&] {
    if (out.size() - pending > 1) {
      std::stable_sort(
          out.begin() + static_cast<long>(pending),
          out.end(),
          [](const ClassedCode& a, const ClassedCode& b) { return a.combining < b.combining; });
    }
    pending = out.size();
  };
  const auto push = [&](char32_t code, bool is_first) {
    const uint8_t combining = combining_class_of(code);
    if (combining == 0) {
      sort_pending();
    }
    out.push_back({{code, is_first ? 0 : 1}, combining});
  };
  for (size_t i = 0; i < text.size(); i += utf8_size(static_cast<unsigned char>(text[i]))) {
    const char32_t code = utf8_read(text.data() + i);
    if (is_hangul(code)) {
      const char32_t index = code - kSBase;
      push(kLBase + index / (kVCount * kTCount), true);
      push(kVBase + index % (kVCount * kTCount) / kTCount, false);
      if (index % kTCount != 0) {
        push(kTBase + index % kTCount, false);
      }
      continue;
    }
    std::u32string_view decomposed =
        is_compatible ? compatible_decomposition_of(code) : std::u32string_view();
    if (decomposed.empty()) {
      decomposed = canonical_decomposition_of(code);
    }
    if (decomposed.empty()) {
      push(code, true);
    }
    for (size_t k = 0; k < decomposed.size(); ++k) {
      push(decomposed[k], k == 0);
    }
  }
  sort_pending();
  return out;
}

char32_t compose(char32_t first, char32_t second) {
  if (first >= kLBase && first < kLBase + kLCount && second >= kVBase &&
      second < kVBase + kVCount) {
    return kSBase + ((first - kLBase) * kVCount + second - kVBase) * kTCount;
  }
  if (is_hangul(first) && (first - kSBase) % kTCount == 0 && second > kTBase &&
      second < kTBase + kTCount) {
    return first + second - kTBase;
  }
  return composition_of(first, second);
}

void recompose(const std::vector<ClassedCode>& codes, RewrittenCodes& out) {
  constexpr int kNone = -1;
  std::optional<RewrittenCode> base;  // what later marks may be composed with
  RewrittenCodes marks;               // that follow it
  int last = kNone;                   // class of the last of them
  const auto purge = [&] {
    out.insert(out.end(), marks.begin(), marks.end());
    marks.clear();
    last = kNone;
  };
  for (const auto& [code, combining] : codes) {
    if (!base) {
      if (combining != 0) {
        out.push_back(code);
      } else {
        base = code;
      }
      continue;
    }
    if (last != kNone && last >= combining) {  // blocked
      if (combining == 0) {
        out.push_back(*base);
        base = code;
        purge();
      } else {
        marks.push_back(code);
        last = combining;
      }
      continue;
    }
    if (const char32_t composed = compose(base->code, code.code)) {
      base = RewrittenCode{composed, base->change + code.change - 1};
    } else if (last == kNone && combining == 0) {
      out.push_back(*base);
      base = code;
    } else {
      marks.push_back(code);
      last = combining;
    }
  }
  if (base) {
    out.push_back(*base);
  }
  purge();
}

GraphemeBreak break_of(uint32_t flags) {
  return static_cast<GraphemeBreak>(flags >> kBreakShift & 15);
}

}  // namespace

bool is_surely_in_form(std::string_view text, UnicodeForm form) {
  const uint32_t inert = form == UnicodeForm::kNfc    ? kNfcInert
                         : form == UnicodeForm::kNfkc ? kNfkcInert
                         : form == UnicodeForm::kNfd  ? kNfdInert
                                                      : kNfkdInert;
  const char* p = text.data();
  const char* end = p + text.size();
  while ((p = skip_ascii(p, end)) < end) {
    if ((flags_of(utf8_read(p)) & inert) == 0) {
      return false;
    }
    p += utf8_size(static_cast<unsigned char>(*p));
  }
  return true;
}

void normalize_form(std::string_view text, UnicodeForm form, RewrittenCodes& out) {
  const std::vector<ClassedCode> codes =
      decompose(text, form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd);
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) {
    recompose(codes, out);
    return;
  }
  for (const ClassedCode& code : codes) {
    out.push_back(code.code);
  }
}

size_t grapheme_end(std::string_view text, size_t begin) {
  using Break = GraphemeBreak;
  size_t at = begin;
  const auto read = [&] {
    const uint32_t flags = flags_of(utf8_read(text.data() + at));
    at += utf8_size(static_cast<unsigned char>(text[at]));
    return flags;
  };
  uint32_t before = read();
  size_t num_regional = break_of(before) == Break::kRegional ? 1 : 0;
  // An emoji with marks, and whether a joiner follows it; a consonant, and whether a linker
  // follows.
  bool is_pictographic = (before & kExtPict) != 0;
  bool is_joined = false;
  bool is_consonant = (before & kInCbConsonant) != 0;
  bool is_linked = false;
  while (at < text.size()) {
    const size_t end = at;
    const uint32_t flags = read();
    const Break left = break_of(before);
    const Break right = break_of(flags);
    const auto is_control = [](Break b) {
      return b == Break::kCr || b == Break::kLf || b == Break::kControl;
    };
    bool joins = false;
    if (left == Break::kCr && right == Break::kLf) {
      joins = true;
    } else if (is_control(left) || is_control(right)) {
      joins = false;
    } else if (left == Break::kL && (right == Break::kL || right == Break::kV ||
                                     right == Break::kLv || right == Break::kLvt)) {
      joins = true;
    } else if ((left == Break::kLv || left == Break::kV) &&
               (right == Break::kV || right == Break::kT)) {
      joins = true;
    } else if ((left == Break::kLvt || left == Break::kT) && right == Break::kT) {
      joins = true;
    } else if (right == Break::kExtend || right == Break::kZwj || right == Break::kSpacingMark ||
               left == Break::kPrepend) {
      joins = true;
    } else if (is_consonant && is_linked && (flags & kInCbConsonant) != 0) {
      joins = true;
    } else if (is_pictographic && is_joined && (flags & kExtPict) != 0) {
      joins = true;
    } else if (left == Break::kRegional && right == Break::kRegional) {
      joins = num_regional % 2 == 1;
    }
    if (!joins) {
      return end;
    }
    num_regional = right == Break::kRegional ? num_regional + 1 : 0;
    is_joined = is_pictographic && right == Break::kZwj;
    if ((flags & kExtPict) != 0) {
      is_pictographic = true;
    } else if (right != Break::kExtend && right != Break::kZwj) {
      is_pictographic = false;
    }
    if ((flags & kInCbConsonant) != 0) {
      is_consonant = true;
      is_linked = false;
    } else if ((flags & kInCbLinker) != 0) {
      is_linked = is_consonant;
    } else if ((flags & kInCbExtend) == 0) {
      is_consonant = false;
      is_linked = false;
    }
    before = flags;
  }
  return text.size();
}

}  // namespace tenon
