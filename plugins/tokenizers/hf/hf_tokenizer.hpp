// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer.json: text to tokens and back. It has a short way for byte-level vocabularies, which
// gives the same tokens.
// Threads: after construction, any thread may encode and decode.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../engine/byte_bpe.hpp"
#include "added_tokens.hpp"
#include "around_tokens.hpp"
#include "decoder.hpp"
#include "normalizer.hpp"
#include "pre_tokenizer.hpp"
#include "token_model.hpp"

namespace tenon {

// Parts [begin, end) of a text in which special tokens are recognized, in order and not touching.
using TemplateRanges = std::vector<std::pair<size_t, size_t>>;

enum class Around { kNo, kYes };

class HfTokenizer {
 public:
  /* Reads the text of a tokenizer.json; `file` is its name in messages.
   *
   * Errors   hf.file, hf.pattern: TENON_INVALID with the JSON pointer */
  HfTokenizer(const std::string& json, const std::string& file);

  /* Encodes a text.
   *
   * Errors   hf.utf8, hf.unencodable, hf.text_too_long: TENON_INVALID with the byte offset */
  void encode(std::string_view text,
              const TemplateRanges& templates,
              Around around,
              WithRanges with_ranges,
              TokenReceiver& receiver) const;

  /* Decodes ids.
   *
   * Errors   hf.id: TENON_INVALID for an id without a token, with its position */
  std::string decode(const int32_t* ids, size_t n) const;

  int64_t vocab_size() const { return vocab_size_; }
  // The id of a token; TokenMap::kNone if there is none.
  int32_t id_of(std::string_view token) const;

 private:
  void encode_bytes(std::string_view text,
                    const TemplateRanges& templates,
                    WithRanges with_ranges,
                    TokenReceiver& receiver) const;
  void encode_pieces(std::string_view text,
                     const TemplateRanges& templates,
                     WithRanges with_ranges,
                     TokenReceiver& receiver) const;

  std::unique_ptr<TokenModel> model_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_;
  AroundTokens around_;
  Decoder decoder_;
  int64_t vocab_size_ = 0;
  std::unique_ptr<ByteBpe> byte_bpe_;  // null: no short way
  std::vector<SplitPattern> byte_patterns_;
};

}  // namespace tenon
