// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer of SentencePiece models. The library does the work; this file finds control tokens in
// templates, which the library never does, and ranges of byte tokens.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <sentencepiece_processor.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../engine/byte_trie.hpp"
#include "../engine/special_tokens.hpp"
#include "../engine/text_file.hpp"
#include "../engine/utf8.hpp"

namespace {

struct SentencePieceOptions {
  std::string file;
  std::string chat_template;
  bool add_bos = true;
  bool add_eos = false;
};

std::string read_file(const std::string& path) {
  return tenon::read_text(path, "sentencepiece", tenon::kMostTokenizerBytes);
}

class SentencePiece : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "sentencepiece";
  static constexpr const char* kSummary = "models of SentencePiece";
  using Options = SentencePieceOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("file", &Options::file)
        .required()
        .non_empty()
        .path()
        .doc("a model of SentencePiece, often named tokenizer.model");
    binder.field("chat_template", &Options::chat_template)
        .path()
        .doc("file of a Jinja template for chats; empty: none");
    binder.field("add_bos", &Options::add_bos)
        .doc("put the model's bos, if any, before texts that get tokens around");
    binder.field("add_eos", &Options::add_eos)
        .doc("put the model's eos, if any, after texts that get tokens around");
  }

  explicit SentencePiece(const Options& options) : content_(read_file(options.file)) {
    const auto status = processor_.LoadFromSerializedProto(content_);
    if (!status.ok() || processor_.GetPieceSize() <= 0) {
      TENON_FAIL(TENON_INVALID,
                 "sentencepiece.file",
                 options.file,
                 " is no model of SentencePiece: ",
                 status.ok() ? "it has no pieces" : status.ToString());
    }
    std::vector<std::pair<std::string, int32_t>> controls;
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) {
        controls.emplace_back(processor_.IdToPiece(id), id);
      }
    }
    controls_ = tenon::ByteTrie(std::move(controls));
    const auto name = [&](const char* name, int id) {
      if (id >= 0) {
        specials_.add(name, processor_.IdToPiece(id), id);
      }
    };
    name("bos_token", processor_.bos_id());
    name("eos_token", processor_.eos_id());
    name("pad_token", processor_.pad_id());
    name("unk_token", processor_.unk_id());
    bos_ = options.add_bos ? processor_.bos_id() : -1;
    eos_ = options.add_eos ? processor_.eos_id() : -1;
    if (!options.chat_template.empty()) {
      chat_template_ = read_file(options.chat_template);
    }
  }

  void describe(tenon_tokenizer_info& info) const override {
    info.vocab_size = processor_.GetPieceSize();
    info.chat_template_ref = chat_template_.empty() ? nullptr : chat_template_.c_str();
    specials_.describe(info);
  }

  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    tenon::IdsReceiver receiver(sink);
    encode_parts(bytes, {}, receiver);
  }

  void encode_pieces(const std::vector<tenon::TextPiece>& pieces,
                     uint32_t flags,
                     const tenon::TokensSink& sink) const override {
    const tenon::JoinedPieces joined(pieces);
    tenon::TokensReceiver receiver(sink);
    const bool is_around = (flags & TENON_ENCODE_AROUND) != 0;
    const auto add = [&](int32_t id, size_t at) {
      if (is_around && id >= 0) {
        const tenon::ByteRange range{at, at};
        receiver.receive(&id, &range, 1);
      }
    };
    add(bos_, 0);
    encode_parts(joined.text, joined.templates, receiver);
    add(eos_, joined.text.size());
  }

  void decode(const int32_t* ids, size_t n, const tenon::BytesSink& sink) const override {
    for (size_t i = 0; i < n; ++i) {
      if (ids[i] < 0 || ids[i] >= processor_.GetPieceSize()) {
        TENON_FAIL(TENON_INVALID,
                   "sentencepiece.id",
                   "id ",
                   ids[i],
                   " at position ",
                   i,
                   " is out of range (expected 0 to ",
                   processor_.GetPieceSize() - 1,
                   ")");
      }
    }
    std::string text;
    check(processor_.Decode(std::vector<int>(ids, ids + n), &text));
    sink(text.data(), text.size());
  }

  void files(const tenon::FilesSink& sink) const override {
    sink("tokenizer.model", content_);
    if (!chat_template_.empty()) {
      sink("chat_template.jinja", chat_template_);
    }
  }

 private:
  static void check(const sentencepiece::util::Status& status) {
    if (!status.ok()) {
      TENON_FAIL(
          TENON_INTERNAL, "sentencepiece.library", "SentencePiece failed: ", status.ToString());
    }
  }

  // Encodes the parts between the control tokens of templates, each as a separate text.
  void encode_parts(std::string_view text,
                    const std::vector<std::pair<size_t, size_t>>& templates,
                    tenon::TokenReceiver& receiver) const {
    const size_t invalid = tenon::invalid_utf8(text);
    if (invalid != tenon::kNoOffset) {
      TENON_FAIL(
          TENON_INVALID, "sentencepiece.utf8", "the text is not valid UTF-8 at byte ", invalid);
    }
    size_t done = 0;
    size_t from = 0;
    while (!templates.empty() && from < text.size()) {
      const tenon::ByteTrie::Match match = controls_.find(text, from);
      if (match.value == tenon::ByteTrie::kNone) {
        break;
      }
      from = match.end;
      if (!tenon::JoinedPieces::is_inside(templates, match.begin, match.end)) {
        continue;
      }
      encode_part(text, done, match.begin, receiver);
      const tenon::ByteRange range{match.begin, match.end};
      receiver.receive(&match.value, &range, 1);
      done = match.end;
    }
    encode_part(text, done, text.size(), receiver);
  }

  void encode_part(std::string_view text,
                   size_t begin,
                   size_t end,
                   tenon::TokenReceiver& receiver) const {
    if (begin == end) {
      return;
    }
    sentencepiece::ImmutableSentencePieceText pieces;
    check(processor_.Encode(absl::string_view(text.data() + begin, end - begin),
                            pieces.mutable_proto()));
    const auto n = static_cast<size_t>(pieces.pieces_size());
    std::vector<int32_t> ids(n);
    std::vector<tenon::ByteRange> ranges(n);
    for (size_t i = n; i-- > 0;) {
      const auto piece = pieces.pieces(static_cast<int>(i));
      ids[i] = static_cast<int32_t>(piece.id());
      ranges[i] = {begin + piece.begin(), begin + piece.end()};
      // Of the byte tokens of a character, the library gives its range to the last one alone.
      if (processor_.IsByte(ids[i]) && piece.begin() == piece.end() && i + 1 < n &&
          processor_.IsByte(ids[i + 1]) && ranges[i + 1].begin == ranges[i].begin) {
        ranges[i] = ranges[i + 1];
      }
    }
    receiver.receive(ids.data(), ranges.data(), n);
  }

  std::string content_;
  std::string chat_template_;
  sentencepiece::SentencePieceProcessor processor_;
  tenon::ByteTrie controls_;
  tenon::SpecialTokens specials_;
  int32_t bos_ = -1;
  int32_t eos_ = -1;
};

}  // namespace

TENON_PLUGIN(SentencePiece)
