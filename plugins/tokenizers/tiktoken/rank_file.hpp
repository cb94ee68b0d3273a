// SPDX-License-Identifier: Apache-2.0
//
// Vocabularies of ranked byte strings: files of tiktoken, and Mistral's tekken.json. A pair of
// tokens is merged if the bytes of both are a token; its rank is that token's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../engine/token_map.hpp"

namespace tenon {

struct RankedToken {
  std::string name;  // "bos_token"; empty: none
  std::string text;  // "<s>"
  int64_t id = 0;
};

struct RankFile {
  std::string pattern;                // empty: the file has none
  TokenMap tokens;                    // bytes to ids
  std::vector<std::string> by_rank;   // the tokens from rank 0
  int64_t first_id = 0;               // of rank 0
  std::vector<RankedToken> specials;  // the file's own
  bool is_tekken = false;
};

/* Reads the text of a file; `file` is its name in messages.
 *
 * Errors   tiktoken.file: TENON_INVALID with the line or JSON pointer */
RankFile read_rank_file(const std::string& text, const std::string& file);

}  // namespace tenon
