// SPDX-License-Identifier: Apache-2.0
#include "regex.hpp"

#include <tenon/cpp/guard.hpp>

#include <array>
#include <cstdio>
#include <map>
#include <mutex>
#include <oniguruma.h>

#include "unicode_table.hpp"
#include "utf8.hpp"

namespace tenon {
namespace {

constexpr std::array<std::string_view, kNumCategories> kCategoryNames = {
    "Cn", "Cc", "Cf", "Co", "Cs", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
    "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"};

// The categories that a name such as L or Lu means; 0 if it is not a general category.
uint32_t categories_of(std::string_view name) {
  uint32_t found = 0;
  for (size_t i = 0; i < kCategoryNames.size(); ++i) {
    if (kCategoryNames[i] == name || (name.size() == 1 && kCategoryNames[i][0] == name[0])) {
      found |= 1u << i;
    }
  }
  return found;
}

// Ranges of the code points in the categories, as they are written inside of brackets.
std::string ranges_of(uint32_t categories) {
  std::string out;
  const auto add = [&](char32_t begin, char32_t last) {
    std::array<char, 40> text{};
    std::snprintf(text.data(),
                  text.size(),
                  begin == last ? "\\x{%X}" : "\\x{%X}-\\x{%X}",
                  static_cast<unsigned>(begin),
                  static_cast<unsigned>(last));
    out += text.data();
  };
  constexpr char32_t kEnd = 0x110000;
  char32_t begin = kEnd;
  for (char32_t code = 0; code <= kEnd; ++code) {
    // Surrogates never occur in UTF-8.
    const bool is_member =
        code < kEnd && (code < 0xD800 || code > 0xDFFF) && is_in(flags_of(code), categories);
    if (is_member && begin == kEnd) {
      begin = code;
    } else if (!is_member && begin != kEnd) {
      add(begin, code - 1);
      begin = kEnd;
    }
  }
  return out;
}

// Of a pattern with its categories written as ranges. Patterns of existing files have up to 150 KB.
constexpr size_t kMostPatternBytes = size_t{1} << 20;

constexpr uint32_t kAllCategories = (1u << kNumCategories) - 1;

}  // namespace

std::string with_table_categories(std::string_view pattern) {
  std::map<uint32_t, std::string> known;  // ranges by categories
  std::string out;
  size_t depth = 0;  // of brackets
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      depth += c == '[' ? 1 : 0;
      depth -= c == ']' && depth > 0 ? 1 : 0;
      out += c;
      continue;
    }
    const char kind = pattern[i + 1];
    const size_t close = pattern.find('}', i);
    if ((kind == 'p' || kind == 'P') && i + 2 < pattern.size() && pattern[i + 2] == '{' &&
        close != std::string_view::npos) {
      std::string_view name = pattern.substr(i + 3, close - i - 3);
      bool is_negated = kind == 'P';
      if (!name.empty() && name[0] == '^') {
        is_negated = !is_negated;
        name.remove_prefix(1);
      }
      const uint32_t categories = categories_of(name);
      if (categories != 0) {
        const uint32_t wanted = is_negated ? kAllCategories & ~categories : categories;
        const auto found = known.find(wanted);
        const std::string& ranges = found != known.end()
                                        ? found->second
                                        : known.emplace(wanted, ranges_of(wanted)).first->second;
        if (out.size() + ranges.size() > kMostPatternBytes) {
          TENON_FAIL(TENON_INVALID,
                     "tokenizer.regex",
                     "a pattern of ",
                     pattern.size(),
                     " bytes has too many character classes");
        }
        out += depth > 0 ? ranges : "[" + ranges + "]";
        i = close;
        continue;
      }
    }
    out += c;
    out += kind;
    ++i;
  }
  return out;
}

std::string quoted_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
        !(c >= 'a' && c <= 'z')) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "\\x%02X", static_cast<unsigned>(byte));
      out += hex.data();
    } else {
      out += c;
    }
  }
  return out;
}

struct Regex::Compiled {
  regex_t* regex = nullptr;
};

Regex::Regex(const std::string& pattern, const char* id, const std::string& place)
    : compiled_(std::make_unique<Compiled>()), pattern_(pattern) {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
  });
  if (invalid_utf8(pattern) != kNoOffset) {
    TENON_FAIL(TENON_INVALID, id, place, ": the pattern is not valid UTF-8");
  }
  if (pattern.size() > kMostPatternBytes) {
    TENON_FAIL(TENON_INVALID, id, place, ": the pattern has ", pattern.size(), " bytes");
  }
  const std::string text = with_table_categories(pattern);
  const auto* begin = reinterpret_cast<const OnigUChar*>(text.data());
  OnigErrorInfo error{};
  const int code = onig_new(&compiled_->regex,
                            begin,
                            begin + text.size(),
                            ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8,
                            ONIG_SYNTAX_DEFAULT,
                            &error);
  if (code != ONIG_NORMAL) {
    std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> message{};
    onig_error_code_to_str(message.data(), code, &error);
    TENON_FAIL(TENON_INVALID,
               id,
               place,
               ": the pattern ",
               pattern,
               " is no regular expression: ",
               reinterpret_cast<const char*>(message.data()));
  }
}

Regex::~Regex() {
  if (compiled_->regex != nullptr) {
    onig_free(compiled_->regex);
  }
}

void Regex::find_all(std::string_view text,
                     const std::function<void(size_t, size_t)>& found) const {
  const auto* begin = reinterpret_cast<const OnigUChar*>(text.data());
  const auto* end = begin + text.size();
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      onig_region_new(), [](OnigRegion* r) { onig_region_free(r, 1); });
  size_t from = 0;
  size_t last_end = kNoOffset;
  while (from <= text.size()) {
    onig_region_clear(region.get());
    const int at = onig_search(
        compiled_->regex, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE);
    if (at == ONIG_MISMATCH) {
      return;
    }
    if (at < 0) {
      std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> message{};
      onig_error_code_to_str(message.data(), static_cast<int>(at));
      TENON_FAIL(TENON_INVALID,
                 "tokenizer.regex",
                 "the pattern ",
                 pattern_,
                 " failed on a text of ",
                 text.size(),
                 " bytes, at byte ",
                 from,
                 ": ",
                 reinterpret_cast<const char*>(message.data()),
                 "; split the text");
    }
    const auto match_begin = static_cast<size_t>(region->beg[0]);
    const auto match_end = static_cast<size_t>(region->end[0]);
    if (match_begin == match_end && last_end == match_end) {
      from = match_end < text.size()
                 ? match_end + utf8_size(static_cast<unsigned char>(text[match_end]))
                 : match_end + 1;
      continue;
    }
    from = match_end;
    last_end = match_end;
    found(match_begin, match_end);
  }
}

}  // namespace tenon
