// SPDX-License-Identifier: Apache-2.0
//
// A split pattern: a scanner of word_scanner.hpp if the regular expression is one of those in use,
// otherwise Oniguruma.
// Threads: a pattern may be used from many threads at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "regex.hpp"
#include "word_scanner.hpp"

namespace tenon {

enum class PatternKind {
  kRegex,
  kGpt2,
  kCl100k,       // of Llama 3: digits by three
  kCl100kAtEnd,  // of tiktoken: white space at the text's end is one match
  kQwen2,        // digits one by one
  kQwen35,       // the same, with marks in words
  kO200k,
  kTekken,    // digits one by one, no contractions
  kDeepSeek,  // the words of DeepSeek V3
  kNumbers3,  // \p{N}{1,3}
  kNumber,    // \p{N}
  kCjk,
  kDigit,  // char::is_numeric, one by one; no regular expression
};

class SplitPattern {
 public:
  /* Takes a regular expression.
   *
   * Errors   `id`: TENON_INVALID if it is none, with `place` */
  SplitPattern(const std::string& regex, const char* id, const std::string& place);
  explicit SplitPattern(PatternKind kind) : kind_(kind) {}

  PatternKind kind() const { return kind_; }

  // Calls `found(begin, end)` for each match in [begin, end), from left to right. No match is
  // empty, except those of a regular expression that matches nothing.
  template <class Found>
  void find_all(const char* begin, const char* end, Found&& found) const {
    switch (kind_) {
      case PatternKind::kRegex:
        regex_->find_all({begin, static_cast<size_t>(end - begin)},
                         [&](size_t b, size_t e) { found(begin + b, begin + e); });
        return;
      case PatternKind::kGpt2:
        return scan<Gpt2Scanner>(begin, end, found);
      case PatternKind::kCl100k:
        return scan<Cl100kScanner<3, Breaks::kFirst>>(begin, end, found);
      case PatternKind::kCl100kAtEnd:
        return scan<Cl100kScanner<3, Breaks::kAtTextEnd>>(begin, end, found);
      case PatternKind::kQwen2:
        return scan<Cl100kScanner<1, Breaks::kFirst>>(begin, end, found);
      case PatternKind::kQwen35:
        return scan<Cl100kScanner<1, Breaks::kFirst, kClassL | kClassM>>(begin, end, found);
      case PatternKind::kO200k:
        return scan<O200kScanner<3, true>>(begin, end, found);
      case PatternKind::kTekken:
        return scan<O200kScanner<1, false>>(begin, end, found);
      case PatternKind::kDeepSeek:
        return scan<DeepSeekScanner>(begin, end, found);
      case PatternKind::kNumbers3:
        return scan<NumberScanner<3>>(begin, end, found);
      case PatternKind::kNumber:
        return scan<NumberScanner<1>>(begin, end, found);
      case PatternKind::kCjk:
        return scan<CjkScanner>(begin, end, found);
      case PatternKind::kDigit:
        return scan<DigitScanner>(begin, end, found);
    }
  }

  // Calls `piece(begin, end)` for each match and for each gap between matches, if not empty.
  template <class Piece>
  void isolate(const char* begin, const char* end, Piece&& piece) const {
    const char* done = begin;
    find_all(begin, end, [&](const char* b, const char* e) {
      if (b > done) {
        piece(done, b);
      }
      if (e > b) {
        piece(b, e);
      }
      done = e;
    });
    if (done < end) {
      piece(done, end);
    }
  }

 private:
  template <class Scanner, class Found>
  static void scan(const char* p, const char* end, Found& found) {
    while ((p = Scanner::skip(p, end)) < end) {
      const char* q = Scanner::next(p, end);
      if (q == nullptr) {
        p += utf8_size(static_cast<unsigned char>(*p));
      } else {
        found(p, q);
        p = q;
      }
    }
  }

  PatternKind kind_;
  std::shared_ptr<const Regex> regex_;  // shared by copies of the pattern
};

// The regular expression of a pattern that users may name: gpt2, cl100k, o200k, llama3, qwen2,
// qwen3_5, tekken; empty if the name is unknown.
std::string_view named_pattern(std::string_view name);

}  // namespace tenon
