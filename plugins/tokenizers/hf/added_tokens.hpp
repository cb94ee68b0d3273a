// SPDX-License-Identifier: Apache-2.0
//
// Tokens that are found in a text before it is split: special tokens, and words that were added to
// a vocabulary. Threads: after construction, any thread may search.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../engine/byte_trie.hpp"
#include "../engine/json_node.hpp"
#include "normalizer.hpp"
#include "token_model.hpp"

namespace tenon {

struct AddedToken {
  std::string content;
  std::string normalized;  // what the normalizer makes of the content, if it may
  int32_t id = 0;
  bool is_special = false;
  bool is_normalized = false;  // searched in the normalized text
  bool is_single_word = false;
  bool strips_left = false;
  bool strips_right = false;
};

// Whether an added token is searched in the text as it is, or in the normalized text.
enum class AddedStage { kOriginal, kNormalized };

class AddedTokens {
 public:
  AddedTokens() = default;
  // Reads "added_tokens". Gives ids as `tokenizers` does, and refuses a file with others.
  AddedTokens(const JsonNode& node, const TokenModel& model, const Normalizer& normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  // The token of an id or of a text; null if there is none.
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;

  // Calls part(begin, end, token) for the tokens and for what lies between them, which has a null
  // token. A special token counts only if `is_allowed(begin, end)`.
  template <class IsAllowed, class Part>
  void split(std::string_view text, AddedStage stage, IsAllowed&& is_allowed, Part&& part) const;

  // Whether a search finds nothing in any text if special tokens are not allowed.
  bool are_all_special() const { return are_all_special_; }

 private:
  static bool is_word_before(std::string_view text, size_t at);
  static bool is_word_after(std::string_view text, size_t at);
  static size_t spaces_begin(std::string_view text, size_t end);
  static size_t spaces_end(std::string_view text, size_t begin);

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int32_t, size_t> by_id_;
  ByteTrie original_;
  ByteTrie normalized_;
  bool are_all_special_ = true;
};

template <class IsAllowed, class Part>
void AddedTokens::split(std::string_view text,
                        AddedStage stage,
                        IsAllowed&& is_allowed,
                        Part&& part) const {
  const ByteTrie& trie = stage == AddedStage::kOriginal ? original_ : normalized_;
  size_t done = 0;
  size_t from = 0;
  while (from < text.size()) {
    const ByteTrie::Match match = trie.find(text, from);
    if (match.value == ByteTrie::kNone) {
      break;
    }
    from = match.end;
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    if ((token.is_special && !is_allowed(match.begin, match.end)) ||
        (token.is_single_word &&
         (is_word_before(text, match.begin) || is_word_after(text, match.end)))) {
      continue;
    }
    const size_t begin =
        std::max(done, token.strips_left ? spaces_begin(text, match.begin) : match.begin);
    const size_t end = token.strips_right ? spaces_end(text, match.end) : match.end;
    if (end <= begin) {
      continue;
    }
    if (begin > done) {
      part(done, begin, nullptr);
    }
    part(begin, end, &token);
    done = end;
  }
  if (done < text.size()) {
    part(done, text.size(), nullptr);
  }
}

}  // namespace tenon
