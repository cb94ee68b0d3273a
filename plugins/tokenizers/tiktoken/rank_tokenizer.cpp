// SPDX-License-Identifier: Apache-2.0
#include "rank_tokenizer.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>

#include "../engine/special_tokens.hpp"

namespace tenon {
namespace {

// A rule for each way to cut a token into two tokens.
std::vector<MergeRule> rules_of(const RankFile& file) {
  std::vector<MergeRule> rules;
  for (size_t rank = 0; rank < file.by_rank.size(); ++rank) {
    const std::string_view token = file.by_rank[rank];
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const int32_t left = file.tokens.get(token.substr(0, cut));
      const int32_t right = left == TokenMap::kNone ? left : file.tokens.get(token.substr(cut));
      if (right != TokenMap::kNone) {
        rules.push_back({left,
                         right,
                         static_cast<uint32_t>(rank),
                         static_cast<int32_t>(file.first_id + static_cast<int64_t>(rank))});
      }
    }
  }
  return rules;
}

}  // namespace

RankTokenizer::RankTokenizer(RankFile file,
                             const std::string& pattern,
                             std::vector<RankedToken> specials)
    : first_id_(file.first_id), specials_(std::move(specials)) {
  patterns_.emplace_back(pattern, "tiktoken.pattern", "option `pattern`");
  vocab_size_ = first_id_ + static_cast<int64_t>(file.by_rank.size());
  const int64_t end_of_ranks = vocab_size_;
  std::vector<std::pair<std::string, int32_t>> entries;
  for (size_t i = 0; i < specials_.size(); ++i) {
    const RankedToken& special = specials_[i];
    if ((special.id >= first_id_ && special.id < end_of_ranks) ||
        !special_by_id_.emplace(special.id, i).second) {
      TENON_FAIL(TENON_INVALID,
                 "tiktoken.special",
                 "special token \"",
                 special.text,
                 "\" has id ",
                 special.id,
                 ", which another token has (ids of the vocabulary are ",
                 first_id_,
                 " to ",
                 end_of_ranks - 1,
                 "); give it another `id`");
    }
    vocab_size_ = std::max(vocab_size_, special.id + 1);
    entries.emplace_back(special.text, static_cast<int32_t>(i));
  }
  special_trie_ = ByteTrie(std::move(entries));
  const std::vector<MergeRule> rules = rules_of(file);
  by_rank_ = std::move(file.by_rank);
  bpe_ = std::make_unique<ByteBpe>(std::move(file.tokens), rules, WholeWords::kLookedUp);
  if (const auto byte = bpe_->missing_byte()) {
    TENON_FAIL(TENON_INVALID,
               "tiktoken.file",
               "the vocabulary has no token for byte ",
               static_cast<int>(*byte),
               " (expected one for each of 256)");
  }
}

void RankTokenizer::encode(std::string_view text,
                           const std::vector<std::pair<size_t, size_t>>& templates,
                           WithRanges with_ranges,
                           TokenReceiver& receiver) const {
  const size_t invalid = invalid_utf8(text);
  if (invalid != kNoOffset) {
    TENON_FAIL(TENON_INVALID, "tiktoken.utf8", "the text is not valid UTF-8 at byte ", invalid);
  }
  size_t done = 0;
  size_t from = 0;
  while (!templates.empty() && from < text.size()) {
    const ByteTrie::Match match = special_trie_.find(text, from);
    if (match.value == ByteTrie::kNone) {
      break;
    }
    from = match.end;
    if (!JoinedPieces::is_inside(templates, match.begin, match.end)) {
      continue;
    }
    bpe_->encode(text, done, match.begin, patterns_, with_ranges, receiver);
    const auto id = static_cast<int32_t>(specials_[static_cast<size_t>(match.value)].id);
    const ByteRange range{match.begin, match.end};
    receiver.receive(&id, with_ranges == WithRanges::kYes ? &range : nullptr, 1);
    done = match.end;
  }
  bpe_->encode(text, done, text.size(), patterns_, with_ranges, receiver);
}

std::string RankTokenizer::decode(const int32_t* ids, size_t n) const {
  std::string out;
  for (size_t i = 0; i < n; ++i) {
    const int64_t rank = int64_t{ids[i]} - first_id_;
    if (rank >= 0 && rank < static_cast<int64_t>(by_rank_.size())) {
      out += by_rank_[static_cast<size_t>(rank)];
      continue;
    }
    const auto special = special_by_id_.find(ids[i]);
    if (special == special_by_id_.end()) {
      TENON_FAIL(TENON_INVALID,
                 "tiktoken.id",
                 "id ",
                 ids[i],
                 " at position ",
                 i,
                 ids[i] < 0 || ids[i] >= vocab_size_ ? " is out of range" : " has no token",
                 " (expected 0 to ",
                 vocab_size_ - 1,
                 ")");
    }
    out += specials_[special->second].text;
  }
  return out;
}

}  // namespace tenon
