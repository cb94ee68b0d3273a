// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a tokenizer (contract: tokenizer.h), for text that the host itself converts.
// Components call the tokenizers of their options directly.
// Threads: any, concurrently.
#pragma once

#include <tenon/tokenizer.h>

#include "host/plugin/instance.hpp"
#include "host/plugin/tokenizer_check.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

// A piece of a text. Special tokens are recognized only in pieces of a template.
struct TextPiece {
  std::string text;
  bool is_template = false;
};

class TokenizerProxy {
 public:
  // Owner    `instance` is borrowed
  // Errors   as describe_tokenizer()
  explicit TokenizerProxy(const ComponentInstance& instance);

  const TokenizerInfo& info() const { return info_; }
  // False if the tokenizer cannot encode pieces.
  bool has_pieces() const;

  // Encodes one piece of plain text; adds no token around it.
  // Errors   PluginError for text that it cannot encode; plugin.bad_result for ids out of range
  std::vector<int32_t> encode(std::string_view text) const;
  // Encodes one text in pieces. `adds_around`: with the tokens that the vocabulary puts around a
  // text. Requires has_pieces().
  // Errors   as encode()
  std::vector<int32_t> encode(const std::vector<TextPiece>& pieces, bool adds_around) const;
  // Returns the bytes of ids, which may end within a character.
  // Errors   PluginError
  std::string decode(const std::vector<int32_t>& ids) const;
  // Returns names and contents of the files that describe the tokenizer to other programs; empty
  // if it has none.
  // Errors   PluginError; plugin.bad_result for a name that is not that of a file
  std::vector<std::pair<std::string, std::string>> files() const;

 private:
  void check_ids(const std::vector<int32_t>& ids) const;

  const ComponentInstance& instance_;
  TokenizerInfo info_;
  const tenon_tokenizer* table_;
};

}  // namespace tenon
