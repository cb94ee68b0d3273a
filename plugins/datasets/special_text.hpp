// SPDX-License-Identifier: Apache-2.0
//
// Special tokens in texts that no chat template renders: whether they are tokens or text is for the
// user to say, because either is wrong for some files.
#ifndef TENON_DATASETS_SPECIAL_TEXT_HPP
#define TENON_DATASETS_SPECIAL_TEXT_HPP

#include <tenon/cpp/options.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tenon {

enum class SpecialTokens { kError, kRecognize, kText };

// Binds `special_tokens`; `of` says whose: "of the text".
template <class O>
void bind_special_tokens(OptionBinder<O>& binder, const std::string& of) {
  binder
      .choice("special_tokens",
              &O::special_tokens,
              {{"error", SpecialTokens::kError},
               {"recognize", SpecialTokens::kRecognize},
               {"text", SpecialTokens::kText}})
      .doc("what special tokens such as <|endoftext|> " + of +
           " are: an error, tokens, or plain text");
}

// Finds special tokens by the marks that they are written in: <...> and [...]. Threads: any.
class SpecialTokenSearch {
 public:
  explicit SpecialTokenSearch(const TokenizerRef& tokenizer) : tokenizer_(tokenizer) {}

  // The place of the first special token in a text; npos if there is none.
  size_t find(std::string_view text) {
    constexpr size_t kLongest = 64;
    if (!tokenizer_.has_pieces()) {
      return std::string_view::npos;
    }
    for (size_t at = text.find_first_of("<["); at != std::string_view::npos;
         at = text.find_first_of("<[", at + 1)) {
      const std::string_view rest = text.substr(at, kLongest);
      const size_t end = rest.find(text[at] == '<' ? '>' : ']');
      if (end != std::string_view::npos && is_special(rest.substr(0, end + 1))) {
        return at;
      }
    }
    return std::string_view::npos;
  }

 private:
  bool is_special(std::string_view mark) {
    constexpr size_t kMostKept = 10'000;
    const std::string text(mark);
    {
      const std::lock_guard lock(mutex_);
      if (plain_.count(text) > 0) {
        return false;
      }
    }
    const std::vector<Token> as_text = tokenizer_.encode_pieces({{text, false}});
    const std::vector<Token> as_tokens = tokenizer_.encode_pieces({{text, true}});
    if (!std::equal(as_text.begin(),
                    as_text.end(),
                    as_tokens.begin(),
                    as_tokens.end(),
                    [](const Token& a, const Token& b) { return a.id == b.id; })) {
      return true;
    }
    const std::lock_guard lock(mutex_);
    if (plain_.size() < kMostKept) {
      plain_.insert(text);
    }
    return false;
  }

  const TokenizerRef& tokenizer_;
  std::mutex mutex_;
  std::unordered_set<std::string> plain_;  // marks that are no special tokens
};

/* Token ids of a text. Also adds to `bytes`, unless it is null, the bytes of text of each token:
 * from its first byte to that of the next one. So they add up to the text, whatever a tokenizer
 * drops or splits. Only a tokenizer with pieces recognizes special tokens and gives bytes. */
inline std::vector<int32_t> encode_text(const TokenizerRef& tokenizer,
                                        std::string_view text,
                                        bool recognizes,
                                        std::vector<uint32_t>* bytes) {
  if (!recognizes && bytes == nullptr) {
    return tokenizer.encode(text);
  }
  const std::vector<Token> tokens = tokenizer.encode_pieces({{text, recognizes}});
  std::vector<int32_t> ids;
  ids.reserve(tokens.size());
  int64_t begin = 0;
  for (const Token& token : tokens) {
    if (bytes != nullptr && !ids.empty()) {
      bytes->push_back(static_cast<uint32_t>(token.begin - begin));
      begin = token.begin;
    }
    ids.push_back(token.id);
  }
  if (bytes != nullptr && !ids.empty()) {
    bytes->push_back(static_cast<uint32_t>(static_cast<int64_t>(text.size()) - begin));
  }
  return ids;
}

/* Whether special tokens of a file are tokens. `area` begins the id of the error. A tokenizer whose
 * tokens are bytes has none.
 *
 * Errors   TENON_INVALID: the file has one, and `option` does not say what it is */
inline bool recognizes_special_tokens(const std::string& area,
                                      SpecialTokens option,
                                      const TokenizerRef& tokenizer,
                                      const std::string& text,
                                      const std::string& path) {
  if (!tokenizer.has_pieces() || tokenizer.describe().bytes_per_token > 0) {
    return false;
  }
  if (option != SpecialTokens::kError) {
    return option == SpecialTokens::kRecognize;
  }
  const size_t at = SpecialTokenSearch(tokenizer).find(text);
  if (at != std::string::npos) {
    TENON_FAIL(TENON_INVALID,
               (area + ".special_token").c_str(),
               path,
               ": special token at byte ",
               at,
               ", in ",
               json_string(text.substr(at, std::min<size_t>(text.find('\n', at) - at, 24))),
               ", and `special_tokens` does not say what it is; set it to \"recognize\" for one "
               "token, or to \"text\" for its letters");
  }
  return false;
}

}  // namespace tenon

#endif
