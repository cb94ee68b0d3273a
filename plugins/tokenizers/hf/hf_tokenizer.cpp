// SPDX-License-Identifier: Apache-2.0
#include "hf_tokenizer.hpp"

#include <algorithm>
#include <optional>

#include "../engine/special_tokens.hpp"

namespace tenon {
namespace {

void add_around(const std::vector<int32_t>& ids,
                size_t at,
                WithRanges with_ranges,
                TokenReceiver& receiver) {
  if (!ids.empty()) {
    const std::vector<ByteRange> ranges(ids.size(), {at, at});
    receiver.receive(
        ids.data(), with_ranges == WithRanges::kYes ? ranges.data() : nullptr, ids.size());
  }
}

}  // namespace

HfTokenizer::HfTokenizer(const std::string& json, const std::string& file) {
  const nlohmann::json root = parse_json(json, file, "hf.file");
  const JsonNode node(root, file, "hf.file");
  node.allow_only({"version",
                   "truncation",
                   "padding",
                   "added_tokens",
                   "normalizer",
                   "pre_tokenizer",
                   "post_processor",
                   "decoder",
                   "model"});
  if (const auto version = node.find("version")) {
    if (version->string() != "1.0") {
      version->fail("is \"", version->string(), "\" (expected \"1.0\")");
    }
  }
  model_ = read_model(node.at("model"));
  if (const auto part = node.find("normalizer")) {
    normalizer_ = Normalizer(*part);
  }
  if (const auto part = node.find("pre_tokenizer")) {
    pre_tokenizer_ = PreTokenizer(*part);
  }
  if (const auto part = node.find("decoder")) {
    decoder_ = Decoder(*part);
  }
  std::vector<int32_t> special;
  if (const auto part = node.find("added_tokens")) {
    added_ = AddedTokens(*part, *model_, normalizer_);
    for (const AddedToken& token : added_.tokens()) {
      if (token.is_special && token.content.size() > 1) {
        special.push_back(token.id);
      }
    }
  }
  model_->exclude(special);
  vocab_size_ = model_->end_of_ids();
  for (const AddedToken& token : added_.tokens()) {
    vocab_size_ = std::max(vocab_size_, int64_t{token.id} + 1);
  }
  if (const auto part = node.find("post_processor")) {
    around_ = read_around_tokens(*part);
    for (const auto* ids : {&around_.before, &around_.after}) {
      for (const int32_t id : *ids) {
        if (id >= vocab_size_) {
          part->fail("adds id ", id, " (expected less than ", vocab_size_, ")");
        }
      }
    }
  }
  if (const auto* bpe = dynamic_cast<const BpeModel*>(model_.get())) {
    if (auto patterns = pre_tokenizer_.byte_patterns()) {
      byte_patterns_ = std::move(*patterns);
      byte_bpe_ = bpe->byte_bpe();
    }
  }
}

int32_t HfTokenizer::id_of(std::string_view token) const {
  const AddedToken* added = added_.find(token);
  return added != nullptr ? added->id : model_->id_of(token);
}

void HfTokenizer::encode(std::string_view text,
                         const TemplateRanges& templates,
                         Around around,
                         WithRanges with_ranges,
                         TokenReceiver& receiver) const {
  const size_t invalid = invalid_utf8(text);
  if (invalid != kNoOffset) {
    TENON_FAIL(TENON_INVALID, "hf.utf8", "the text is not valid UTF-8 at byte ", invalid);
  }
  if (around == Around::kYes) {
    add_around(around_.before, 0, with_ranges, receiver);
  }
  if (byte_bpe_ != nullptr && byte_bpe_->has_all_bytes(text) && normalizer_.keeps(text)) {
    encode_bytes(text, templates, with_ranges, receiver);
  } else {
    encode_pieces(text, templates, with_ranges, receiver);
  }
  if (around == Around::kYes) {
    add_around(around_.after, text.size(), with_ranges, receiver);
  }
}

void HfTokenizer::encode_bytes(std::string_view text,
                               const TemplateRanges& templates,
                               WithRanges with_ranges,
                               TokenReceiver& receiver) const {
  const auto encode_part = [&](size_t begin, size_t end) {
    byte_bpe_->encode(text, begin, end, byte_patterns_, with_ranges, receiver);
  };
  if (templates.empty() && added_.are_all_special()) {
    encode_part(0, text.size());
    return;
  }
  const auto split = [&](size_t first, size_t size, AddedStage stage, auto&& text_part) {
    added_.split(
        text.substr(first, size),
        stage,
        [&](size_t begin, size_t end) {
          return JoinedPieces::is_inside(templates, first + begin, first + end);
        },
        [&](size_t begin, size_t end, const AddedToken* token) {
          if (token == nullptr) {
            text_part(first + begin, first + end);
          } else {
            const ByteRange range{first + begin, first + end};
            receiver.receive(&token->id, with_ranges == WithRanges::kYes ? &range : nullptr, 1);
          }
        });
  };
  split(0, text.size(), AddedStage::kOriginal, [&](size_t begin, size_t end) {
    split(begin, end - begin, AddedStage::kNormalized, encode_part);
  });
}

void HfTokenizer::encode_pieces(std::string_view text,
                                const TemplateRanges& templates,
                                WithRanges with_ranges,
                                TokenReceiver& receiver) const {
  SplitText pieces(text);
  for (const AddedStage stage : {AddedStage::kOriginal, AddedStage::kNormalized}) {
    pieces.split([&](const SplitPart& part, auto&& add) {
      added_.split(
          pieces.text_of(part),
          stage,
          [&](size_t begin, size_t end) {
            const Origin origin = pieces.origin_of(part, begin, end);
            return JoinedPieces::is_inside(templates, origin.begin, origin.end);
          },
          [&](size_t begin, size_t end, const AddedToken* token) {
            add(begin, end, token == nullptr ? SplitPart::kText : token->id);
          });
    });
    if (stage == AddedStage::kOriginal) {
      normalizer_.apply(pieces);
    }
  }
  pre_tokenizer_.apply(pieces);

  std::vector<int32_t> ids;
  std::vector<ByteRange> ranges;
  std::vector<ModelToken> tokens;
  const auto flush = [&] {
    if (!ids.empty()) {
      receiver.receive(
          ids.data(), with_ranges == WithRanges::kYes ? ranges.data() : nullptr, ids.size());
    }
    ids.clear();
    ranges.clear();
  };
  constexpr size_t kFlush = 8192;
  for (const SplitPart& part : pieces.parts()) {
    const std::string_view piece = pieces.text_of(part);
    if (piece.empty()) {
      continue;
    }
    tokens.clear();
    if (part.token != SplitPart::kText) {
      tokens.push_back({part.token, 0, static_cast<uint32_t>(piece.size())});
    } else {
      try {
        model_->encode(piece, tokens);
      } catch (const Unencodable& error) {
        TENON_FAIL(TENON_INVALID,
                   "hf.unencodable",
                   "the text cannot be encoded at byte ",
                   pieces.origin_of(part, error.at, error.at + 1).begin,
                   ": ",
                   error.what);
      }
    }
    for (const ModelToken& token : tokens) {
      ids.push_back(token.id);
      if (with_ranges == WithRanges::kYes) {
        const Origin origin = pieces.origin_of(part, token.begin, token.end);
        ranges.push_back({origin.begin, origin.end});
      }
    }
    if (ids.size() >= kFlush) {
      flush();
    }
  }
  flush();
}

std::string HfTokenizer::decode(const int32_t* ids, size_t n) const {
  std::vector<std::string> tokens;
  tokens.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    if (const AddedToken* added = added_.find(ids[i])) {
      tokens.push_back(added->normalized);
    } else if (const std::string* text = model_->text_of(ids[i])) {
      tokens.push_back(*text);
    } else if (ids[i] < 0 || ids[i] >= vocab_size_) {
      TENON_FAIL(TENON_INVALID,
                 "hf.id",
                 "id ",
                 ids[i],
                 " at position ",
                 i,
                 " is out of range (expected 0 to ",
                 vocab_size_ - 1,
                 ")");
    }
    // An id between those of tokens has no text, as in `tokenizers`.
  }
  return decoder_.decode(std::move(tokens));
}

}  // namespace tenon
