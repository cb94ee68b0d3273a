// SPDX-License-Identifier: Apache-2.0
#include "token_model.hpp"

#include <algorithm>

namespace tenon {

const std::string* TokenModel::text_of(int32_t id) const {
  const auto at = static_cast<size_t>(id);
  return id >= 0 && at < texts_.size() && has_text_[at] ? &texts_[at] : nullptr;
}

void TokenModel::add_token(const std::string& text, int32_t id) {
  const auto at = static_cast<size_t>(id);
  if (at >= texts_.size()) {
    texts_.resize(at + 1);
    has_text_.resize(at + 1);
  }
  texts_[at] = text;
  has_text_[at] = true;
  tokens_.set(text, id);
}

void TokenModel::exclude(const std::vector<int32_t>& ids) {
  is_excluded_.assign(texts_.size(), false);
  for (const int32_t id : ids) {
    if (static_cast<size_t>(id) < is_excluded_.size()) {
      is_excluded_[static_cast<size_t>(id)] = true;
    }
  }
}

void TokenModel::read_vocabulary(const JsonNode& node) {
  // The largest id sizes the table, so it must be explained by the number of tokens.
  constexpr int64_t kAlways = int64_t{1} << 16;
  constexpr int64_t kIdsPerToken = 8;
  const auto n = static_cast<int64_t>(node.object().size());
  const int64_t most = std::min(kMostIds, std::max(kAlways, n * kIdsPerToken));
  for (const auto& [text, id] : node.value().items()) {
    const bool is_valid =
        id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(most);
    add_token(text,
              static_cast<int32_t>(is_valid ? id.get<int64_t>()
                                            : node.member(text, id).integer(0, most - 1)));
  }
}

std::unique_ptr<TokenModel> read_model(const JsonNode& node) {
  std::string type;
  if (const auto named = node.find("type")) {
    type = named->string();
  } else {  // files of early versions have no type
    type = node.find("merges")                     ? "BPE"
           : node.find("max_input_chars_per_word") ? "WordPiece"
           : node.at("vocab").value().is_array()   ? "Unigram"
                                                   : "WordLevel";
  }
  if (type == "BPE") {
    return std::make_unique<BpeModel>(node);
  }
  if (type == "Unigram") {
    return std::make_unique<UnigramModel>(node);
  }
  if (type == "WordPiece") {
    return std::make_unique<WordPieceModel>(node);
  }
  if (type == "WordLevel") {
    return std::make_unique<WordLevelModel>(node);
  }
  node.at("type").fail(not_supported(type, {"BPE", "Unigram", "WordLevel", "WordPiece"}));
}

}  // namespace tenon
