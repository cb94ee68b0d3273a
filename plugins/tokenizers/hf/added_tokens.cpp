// SPDX-License-Identifier: Apache-2.0
#include "added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "../engine/unicode_table.hpp"

namespace tenon {

AddedTokens::AddedTokens(const JsonNode& node,
                         const TokenModel& model,
                         const Normalizer& normalizer) {
  const auto num_model_tokens = static_cast<int64_t>(model.num_tokens());
  int64_t next_id = num_model_tokens;
  const size_t n = node.array_size();
  for (size_t i = 0; i < n; ++i) {
    const JsonNode one = node.at(i);
    one.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.content = one.at("content").string();
    token.is_special = one.at("special").boolean();
    token.is_normalized = one.at("normalized").boolean();
    token.is_single_word = one.at("single_word").boolean();
    token.strips_left = one.at("lstrip").boolean();
    token.strips_right = one.at("rstrip").boolean();
    const int64_t stated = one.at("id").integer(0, kMostIds - 1);
    if (token.content.empty()) {
      continue;
    }
    const auto known = by_content_.find(token.content);
    int64_t id =
        known != by_content_.end() ? tokens_[known->second].id : model.id_of(token.content);
    if (id == TokenMap::kNone) {
      id = next_id++;
    }
    if (id != stated) {
      one.at("id").fail("is ",
                        stated,
                        ", but the token \"",
                        token.content,
                        "\" gets id ",
                        id,
                        "; list added tokens in the order of their ids, from ",
                        num_model_tokens);
    }
    token.id = static_cast<int32_t>(id);
    token.normalized = token.content;
    if (token.is_normalized && !normalizer.empty()) {
      SplitText text(token.content);
      normalizer.apply(text);
      token.normalized.clear();
      for (const SplitPart& part : text.parts()) {
        token.normalized += text.text_of(part);
      }
    }
    if (known != by_content_.end()) {
      tokens_[known->second] = std::move(token);
      continue;
    }
    by_content_[token.content] = tokens_.size();
    by_id_[token.id] = tokens_.size();
    tokens_.push_back(std::move(token));
  }

  std::vector<std::pair<std::string, int32_t>> original;
  std::vector<std::pair<std::string, int32_t>> normalized;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    are_all_special_ = are_all_special_ && token.is_special;
    if (!token.is_normalized) {
      original.emplace_back(token.content, static_cast<int32_t>(i));
    } else if (!token.normalized.empty()) {
      normalized.emplace_back(token.normalized, static_cast<int32_t>(i));
    }
  }
  const auto sorted = [](auto pairs) {
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  };
  const auto all = sorted(normalized);
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].first == all[i - 1].first) {
      node.fail("has the tokens \"",
                tokens_[static_cast<size_t>(all[i - 1].second)].content,
                "\" and \"",
                tokens_[static_cast<size_t>(all[i].second)].content,
                "\", which are equal after normalization; set \"normalized\" to false");
    }
  }
  original_ = ByteTrie(std::move(original));
  normalized_ = ByteTrie(std::move(normalized));
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

bool AddedTokens::is_word_before(std::string_view text, size_t at) {
  return at > 0 && has_flag(utf8_read_before(text.data() + at), kWord);
}

bool AddedTokens::is_word_after(std::string_view text, size_t at) {
  return at < text.size() && has_flag(utf8_read(text.data() + at), kWord);
}

size_t AddedTokens::spaces_begin(std::string_view text, size_t end) {
  while (end > 0) {
    const char32_t code = utf8_read_before(text.data() + end);
    if (!has_flag(code, kSpace)) {
      break;
    }
    end -= utf8_size_of(code);
  }
  return end;
}

size_t AddedTokens::spaces_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const char32_t code = utf8_read(text.data() + begin);
    if (!has_flag(code, kSpace)) {
      break;
    }
    begin += utf8_size_of(code);
  }
  return begin;
}

}  // namespace tenon
