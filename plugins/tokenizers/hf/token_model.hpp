// SPDX-License-Identifier: Apache-2.0
//
// The model of a tokenizer.json: encodes a piece of normalized text.
// Threads: after construction, any thread may encode.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../engine/byte_bpe.hpp"
#include "../engine/json_node.hpp"
#include "../engine/token_map.hpp"

namespace tenon {

// Largest number of ids that a file may have.
constexpr int64_t kMostIds = int64_t{1} << 24;

struct ModelToken {
  int32_t id;
  uint32_t begin;  // bytes of the piece
  uint32_t end;
};

// Thrown by `encode` for text that has no tokens; the caller knows the text's place.
struct Unencodable {
  size_t at;         // byte of the piece
  const char* what;  // a static text
};

class TokenModel {
 public:
  TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;
  virtual ~TokenModel() = default;

  /* Appends the tokens of a piece that is not empty.
   *
   * Errors   Unencodable */
  virtual void encode(std::string_view piece, std::vector<ModelToken>& out) const = 0;

  // Text never becomes one of these tokens: special tokens are found before the model sees a text.
  // Called once, before encode().
  virtual void exclude(const std::vector<int32_t>& ids);

  int32_t id_of(std::string_view token) const { return tokens_.get(token); }
  // The text of an id; null if it has none.
  const std::string* text_of(int32_t id) const;
  // Tokens in the vocabulary, as `tokenizers` counts them.
  virtual size_t num_tokens() const { return tokens_.size(); }
  int64_t end_of_ids() const { return static_cast<int64_t>(texts_.size()); }

 protected:
  void add_token(const std::string& text, int32_t id);
  bool is_excluded(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < is_excluded_.size() &&
           is_excluded_[static_cast<size_t>(id)];
  }
  // The id that a text has, unless it is excluded; TokenMap::kNone if there is none.
  int32_t id_of_text(std::string_view text) const {
    const int32_t id = tokens_.get(text);
    return is_excluded(id) ? TokenMap::kNone : id;
  }
  // Reads {"token": id, ..}.
  void read_vocabulary(const JsonNode& node);

  TokenMap tokens_;
  std::vector<std::string> texts_;  // by id
  std::vector<bool> has_text_;
  std::vector<bool> is_excluded_;  // by id; ids beyond its end are not
};

// Byte pair encoding of characters, with unknown tokens, byte tokens, prefixes and suffixes.
class BpeModel : public TokenModel {
 public:
  explicit BpeModel(const JsonNode& node);
  void exclude(const std::vector<int32_t>& ids) override;
  void encode(std::string_view piece, std::vector<ModelToken>& out) const override;
  // The same vocabulary for words of bytes, whose tokens are in the byte-level alphabet; null if it
  // has parts that work on characters. Texts with a byte that has no token need encode().
  std::unique_ptr<ByteBpe> byte_bpe() const;

 private:
  std::vector<MergeRule> rules_;
  MergeTable merges_;
  std::string unknown_;
  bool has_unknown_ = false;
  std::string prefix_;
  std::string suffix_;
  bool fuses_unknown_ = false;
  bool has_byte_tokens_ = false;
  bool ignores_merges_ = false;
  int32_t byte_tokens_[256] = {};  // of byte_fallback
};

class UnigramModel : public TokenModel {
 public:
  explicit UnigramModel(const JsonNode& node);
  ~UnigramModel() override;
  void exclude(const std::vector<int32_t>& ids) override;
  void encode(std::string_view piece, std::vector<ModelToken>& out) const override;
  size_t num_tokens() const override { return scores_.size(); }

 private:
  struct Trie;
  std::unique_ptr<Trie> trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  int32_t unknown_ = TokenMap::kNone;
  bool has_byte_tokens_ = false;
  int32_t byte_tokens_[256] = {};
};

class WordPieceModel : public TokenModel {
 public:
  explicit WordPieceModel(const JsonNode& node);
  void encode(std::string_view piece, std::vector<ModelToken>& out) const override;

 private:
  std::string unknown_;
  std::string prefix_;
  size_t most_characters_ = 100;
};

class WordLevelModel : public TokenModel {
 public:
  explicit WordLevelModel(const JsonNode& node);
  void encode(std::string_view piece, std::vector<ModelToken>& out) const override;

 private:
  std::string unknown_;
};

std::unique_ptr<TokenModel> read_model(const JsonNode& node);

}  // namespace tenon
