// SPDX-License-Identifier: Apache-2.0
//
// WordPiece and WordLevel: whole words, and words of greedy parts.
#include <algorithm>

#include "../engine/utf8.hpp"
#include "token_model.hpp"

namespace tenon {
namespace {

constexpr const char* kNoUnknown = "the vocabulary has no token for it, and lacks its `unk_token`";

}  // namespace

WordPieceModel::WordPieceModel(const JsonNode& node) {
  node.allow_only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  unknown_ = node.at("unk_token").string();
  prefix_ = node.at("continuing_subword_prefix").string();
  most_characters_ = static_cast<size_t>(node.at("max_input_chars_per_word").integer(0, INT32_MAX));
  read_vocabulary(node.at("vocab"));
}

void WordPieceModel::encode(std::string_view piece, std::vector<ModelToken>& out) const {
  const auto add_unknown = [&] {
    const int32_t id = tokens_.get(unknown_);
    if (id == TokenMap::kNone) {
      throw Unencodable{0, kNoUnknown};
    }
    out.push_back({id, 0, static_cast<uint32_t>(piece.size())});
  };
  if (static_cast<size_t>(std::count_if(piece.begin(), piece.end(), is_utf8_start)) >
      most_characters_) {
    add_unknown();
    return;
  }
  const size_t before = out.size();
  std::string with_prefix;
  for (size_t begin = 0; begin < piece.size();) {
    size_t end = piece.size();
    int32_t id = TokenMap::kNone;
    while (end > begin) {
      std::string_view part = piece.substr(begin, end - begin);
      if (begin > 0) {
        part = with_prefix.assign(prefix_).append(part);
      }
      id = id_of_text(part);
      if (id != TokenMap::kNone) {
        break;
      }
      do {
        --end;
      } while (!is_utf8_start(piece[end]));
    }
    if (id == TokenMap::kNone) {
      out.resize(before);
      add_unknown();
      return;
    }
    out.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = end;
  }
}

WordLevelModel::WordLevelModel(const JsonNode& node) {
  node.allow_only({"type", "unk_token", "vocab"});
  unknown_ = node.at("unk_token").string();
  read_vocabulary(node.at("vocab"));
}

void WordLevelModel::encode(std::string_view piece, std::vector<ModelToken>& out) const {
  int32_t id = id_of_text(piece);
  if (id == TokenMap::kNone) {
    id = tokens_.get(unknown_);
  }
  if (id == TokenMap::kNone) {
    throw Unencodable{0, kNoUnknown};
  }
  out.push_back({id, 0, static_cast<uint32_t>(piece.size())});
}

}  // namespace tenon
