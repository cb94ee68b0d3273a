// SPDX-License-Identifier: Apache-2.0
//
// A regular expression of Oniguruma, the engine that `tokenizers` uses. General categories such as
// \p{L} are replaced by ranges of this tree's Unicode table first, since Debian's library has an
// older Unicode.
// Threads: a compiled expression may be searched from many threads at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon {

class Regex {
 public:
  /* Compiles a pattern.
   *
   * Errors   `id`: TENON_INVALID with the pattern, `place` and the engine's message */
  Regex(const std::string& pattern, const char* id, const std::string& place);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /* Calls `found(begin, end)` for each match, from left to right. An empty match right after
   * another match is skipped.
   *
   * Errors   tokenizer.regex: TENON_INVALID if the engine gives up, for example for its stack */
  void find_all(std::string_view text, const std::function<void(size_t, size_t)>& found) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string pattern_;
};

// The pattern with \p{..} and \P{..} of general categories written as ranges.
std::string with_table_categories(std::string_view pattern);

// The pattern that matches the text itself.
std::string quoted_pattern(std::string_view text);

}  // namespace tenon
