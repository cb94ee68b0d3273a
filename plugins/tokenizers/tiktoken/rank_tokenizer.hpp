// SPDX-License-Identifier: Apache-2.0
//
// Encodes and decodes with a ranked vocabulary, a split pattern and special tokens.
// Threads: after construction, any thread may encode and decode.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../engine/byte_bpe.hpp"
#include "../engine/byte_trie.hpp"
#include "rank_file.hpp"

namespace tenon {

class RankTokenizer {
 public:
  /* Takes a vocabulary, a regular expression and the special tokens.
   *
   * Errors   TENON_INVALID if a byte has no token, an id is used twice or the pattern is none */
  RankTokenizer(RankFile file, const std::string& pattern, std::vector<RankedToken> specials);

  /* Encodes a text. A special token is recognized if it lies in one of the ranges of `templates`.
   *
   * Errors   tiktoken.utf8: TENON_INVALID with the byte offset */
  void encode(std::string_view text,
              const std::vector<std::pair<size_t, size_t>>& templates,
              WithRanges with_ranges,
              TokenReceiver& receiver) const;

  /* Decodes ids.
   *
   * Errors   tiktoken.id: TENON_INVALID for an id without a token, with its position */
  std::string decode(const int32_t* ids, size_t n) const;

  int64_t vocab_size() const { return vocab_size_; }

 private:
  std::vector<std::string> by_rank_;
  int64_t first_id_;
  std::vector<RankedToken> specials_;
  std::unordered_map<int64_t, size_t> special_by_id_;
  ByteTrie special_trie_;
  std::vector<SplitPattern> patterns_;
  std::unique_ptr<ByteBpe> bpe_;
  int64_t vocab_size_ = 0;
};

}  // namespace tenon
