// SPDX-License-Identifier: Apache-2.0
//
// Source: Kudo, Subword Regularization (2018); the best path as in SentencePiece's unigram model.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <utility>

#include "../engine/byte_trie.hpp"
#include "../engine/utf8.hpp"
#include "token_model.hpp"

namespace tenon {

struct UnigramModel::Trie {
  ByteTrie tokens;
};

UnigramModel::~UnigramModel() = default;

UnigramModel::UnigramModel(const JsonNode& node) {
  constexpr double kUnknownPenalty = 10.0;
  node.allow_only({"type", "vocab", "unk_id", "byte_fallback"});
  const JsonNode vocabulary = node.at("vocab");
  const size_t n = vocabulary.array_size();
  if (static_cast<int64_t>(n) > kMostIds) {
    vocabulary.fail("has ", n, " tokens (expected at most ", kMostIds, ")");
  }
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < n; ++i) {
    const nlohmann::json& entry = vocabulary.value()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      vocabulary.at(i).fail("is no pair of a token and its score");
    }
    const auto text = entry[0].get<std::string>();
    const auto id = static_cast<int32_t>(i);
    add_token(text, id);
    scores_.push_back(vocabulary.at(i).at(size_t{1}).number());
    lowest = std::min(lowest, scores_.back());
  }
  unknown_score_ = lowest - kUnknownPenalty;
  if (const auto unknown = node.find("unk_id")) {
    unknown_ = static_cast<int32_t>(unknown->integer(0, static_cast<int64_t>(n) - 1));
  }
  has_byte_tokens_ = node.boolean_or("byte_fallback", false);
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
    byte_tokens_[byte] = tokens_.get(text.data());
  }
}

void UnigramModel::exclude(const std::vector<int32_t>& ids) {
  TokenModel::exclude(ids);
  std::vector<std::pair<std::string, int32_t>> entries;
  for (size_t i = 0; i < scores_.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!texts_[i].empty() && !is_excluded(id)) {
      entries.emplace_back(texts_[i], id);
    }
  }
  trie_ = std::make_unique<Trie>(Trie{ByteTrie(std::move(entries))});
}

void UnigramModel::encode(std::string_view piece, std::vector<ModelToken>& out) const {
  constexpr uint32_t kNowhere = ~uint32_t{0};
  struct Node {  // of the best path that ends at a byte
    double score = 0;
    uint32_t begin = kNowhere;
    int32_t id = 0;
  };
  std::vector<Node> nodes(piece.size() + 1);
  for (size_t begin = 0; begin < piece.size();) {
    const size_t size = utf8_size(static_cast<unsigned char>(piece[begin]));
    const double score_here = nodes[begin].score;
    bool has_single = false;
    const auto offer = [&](size_t end, double score, int32_t id) {
      Node& node = nodes[end];
      if (node.begin == kNowhere || score > node.score) {
        node = {score, static_cast<uint32_t>(begin), id};
        return true;
      }
      return false;
    };
    trie_->tokens.prefixes(piece.substr(begin), [&](size_t length, int32_t id) {
      offer(begin + length, scores_[static_cast<size_t>(id)] + score_here, id);
      has_single = has_single || length == size;
    });
    if (!has_single && offer(begin + size, unknown_score_ + score_here, unknown_) &&
        unknown_ == TokenMap::kNone) {
      throw Unencodable{begin, "the vocabulary has no token for it and no `unk_id`"};
    }
    begin += size;
  }
  // From the end; unknown pieces side by side become one.
  std::vector<std::pair<uint32_t, uint32_t>> spans;
  bool was_unknown = false;
  for (auto end = static_cast<uint32_t>(piece.size()); end > 0;) {
    const Node& node = nodes[end];
    const bool is_unknown = unknown_ != TokenMap::kNone && node.id == unknown_;
    if (is_unknown && was_unknown) {
      spans.back().first = node.begin;
    } else {
      spans.emplace_back(node.begin, end);
    }
    was_unknown = is_unknown;
    end = node.begin;
  }
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    const std::string_view text = piece.substr(span->first, span->second - span->first);
    int32_t id = id_of_text(text);
    if (id == TokenMap::kNone && has_byte_tokens_ &&
        std::all_of(text.begin(), text.end(), [&](char c) {
          return byte_tokens_[static_cast<unsigned char>(c)] != TokenMap::kNone;
        })) {
      for (const char c : text) {
        out.push_back({byte_tokens_[static_cast<unsigned char>(c)], span->first, span->second});
      }
      continue;
    }
    if (id == TokenMap::kNone) {
      id = unknown_;
    }
    if (id == TokenMap::kNone) {
      throw Unencodable{span->first, "the vocabulary has no token for it and no `unk_id`"};
    }
    out.push_back({id, span->first, span->second});
  }
}

}  // namespace tenon
