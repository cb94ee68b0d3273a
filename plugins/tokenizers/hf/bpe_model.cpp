// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "../engine/utf8.hpp"
#include "byte_level.hpp"
#include "token_model.hpp"

namespace tenon {
namespace {

// "<0x0A>"
std::string byte_token(unsigned byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", byte & 0xFF);
  return text.data();
}

// Both halves of a merge: ["a", "b"] or "a b".
std::pair<std::string, std::string> read_merge(const nlohmann::json& merges,
                                               size_t i,
                                               const JsonNode& node) {
  const nlohmann::json& merge = merges[i];
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const std::string text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  node.at(i).fail("is no merge (expected two tokens with a space between, or an array of two)");
}

}  // namespace

BpeModel::BpeModel(const JsonNode& node) {
  node.allow_only({"type",
                   "dropout",
                   "unk_token",
                   "continuing_subword_prefix",
                   "end_of_word_suffix",
                   "fuse_unk",
                   "byte_fallback",
                   "ignore_merges",
                   "vocab",
                   "merges",
                   "cache_capacity"});
  if (const auto dropout = node.find("dropout")) {
    if (dropout->number() != 0) {
      dropout->fail("is ", dropout->value().dump(), ", which is not supported (expected null)");
    }
  }
  if (const auto unknown = node.find("unk_token")) {
    unknown_ = unknown->string();
    has_unknown_ = true;
  }
  prefix_ = node.string_or("continuing_subword_prefix", "");
  suffix_ = node.string_or("end_of_word_suffix", "");
  fuses_unknown_ = node.boolean_or("fuse_unk", false);
  ignores_merges_ = node.boolean_or("ignore_merges", false);
  read_vocabulary(node.at("vocab"));

  const JsonNode merges = node.at("merges");
  const size_t num_merges = merges.array_size();
  rules_.reserve(num_merges);
  uint32_t rank = 0;
  for (size_t i = 0; i < num_merges; ++i) {
    if (merges.value()[i].is_string() &&
        merges.value()[i].get_ref<const std::string&>().rfind("#version", 0) == 0) {
      continue;
    }
    const auto [left, right] = read_merge(merges.value(), i, merges);
    const auto id_in_vocabulary = [&](const std::string& token) {
      const int32_t id = tokens_.get(token);
      if (id == TokenMap::kNone) {
        merges.at(i).fail("merges to or from \"", token, "\", which the vocabulary lacks");
      }
      return id;
    };
    const int32_t left_id = id_in_vocabulary(left);
    const int32_t right_id = id_in_vocabulary(right);
    if (right.size() < prefix_.size()) {
      merges.at(i).fail("has the right token \"", right, "\" without the prefix \"", prefix_, "\"");
    }
    rules_.push_back(
        {left_id, right_id, rank++, id_in_vocabulary(left + right.substr(prefix_.size()))});
  }
  if (node.boolean_or("byte_fallback", false)) {
    has_byte_tokens_ = true;
    for (unsigned byte = 0; byte < 256; ++byte) {
      byte_tokens_[byte] = tokens_.get(byte_token(byte));
    }
  }
}

void BpeModel::exclude(const std::vector<int32_t>& ids) {
  TokenModel::exclude(ids);
  const auto makes_excluded = [this](const MergeRule& rule) { return is_excluded(rule.merged); };
  rules_.erase(std::remove_if(rules_.begin(), rules_.end(), makes_excluded), rules_.end());
  merges_ = MergeTable(rules_);
}

void BpeModel::encode(std::string_view piece, std::vector<ModelToken>& out) const {
  if (ignores_merges_) {
    const int32_t id = id_of_text(piece);
    if (id != TokenMap::kNone) {
      out.push_back({id, 0, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  std::vector<MergeSymbol> symbols;
  symbols.reserve(piece.size());
  uint32_t unknown_size = 0;  // of an unknown token that is not added yet
  int32_t unknown_id = TokenMap::kNone;
  const auto add_unknown = [&] {
    if (unknown_size > 0) {
      symbols.push_back({unknown_id, unknown_size});
      unknown_size = 0;
    }
  };
  std::string with_affixes;
  for (size_t i = 0; i < piece.size();) {
    const size_t size = utf8_size(static_cast<unsigned char>(piece[i]));
    const bool is_first = i == 0;
    const bool is_last = i + size == piece.size();
    std::string_view symbol = piece.substr(i, size);
    if ((!is_first && !prefix_.empty()) || (is_last && !suffix_.empty())) {
      with_affixes.assign(is_first ? "" : prefix_).append(symbol).append(is_last ? suffix_ : "");
      symbol = with_affixes;
    }
    const size_t at = i;
    i += size;
    const int32_t id = id_of_text(symbol);
    if (id != TokenMap::kNone) {
      add_unknown();
      symbols.push_back({id, static_cast<uint32_t>(size)});
      continue;
    }
    if (has_byte_tokens_) {
      bool has_all = true;
      for (const char byte : symbol) {
        has_all = has_all && byte_tokens_[static_cast<unsigned char>(byte)] != TokenMap::kNone;
      }
      if (has_all) {
        // As in `tokenizers`, an unknown token before them stays behind them. Bytes of affixes
        // stand for no text.
        const size_t text = is_first ? 0 : prefix_.size();
        for (size_t b = 0; b < symbol.size(); ++b) {
          const bool is_text = text <= b && b < text + size;
          symbols.push_back(
              {byte_tokens_[static_cast<unsigned char>(symbol[b])], is_text ? 1U : 0U});
        }
        continue;
      }
    }
    if (has_unknown_) {
      if (!fuses_unknown_) {
        add_unknown();
      }
      unknown_id = tokens_.get(unknown_);
      if (unknown_id == TokenMap::kNone) {
        throw Unencodable{at, "the vocabulary has no token for it, and lacks its `unk_token`"};
      }
      unknown_size += static_cast<uint32_t>(size);
    }
    // Without an unknown token, the character has no token, as in `tokenizers`.
  }
  add_unknown();
  merges_.merge(symbols);
  uint32_t begin = 0;
  for (const MergeSymbol& symbol : symbols) {
    out.push_back({symbol.id, begin, begin + symbol.size});
    begin += symbol.size;
  }
}

std::unique_ptr<ByteBpe> BpeModel::byte_bpe() const {
  if (!prefix_.empty() || !suffix_.empty()) {
    return nullptr;
  }
  // Tokens outside of the alphabet never occur in words.
  TokenMap bytes;
  std::string text;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    text.clear();
    if (!is_excluded(tokens_.id(i)) && append_level_bytes(text, tokens_.token(i))) {
      bytes.set(text, tokens_.id(i));
    }
  }
  std::vector<MergeRule> rules;
  for (const MergeRule& rule : rules_) {
    text.clear();
    if (append_level_bytes(text, *text_of(rule.merged))) {
      rules.push_back(rule);
    }
  }
  return std::make_unique<ByteBpe>(
      std::move(bytes), rules, ignores_merges_ ? WholeWords::kLookedUp : WholeWords::kMerged);
}

}  // namespace tenon
