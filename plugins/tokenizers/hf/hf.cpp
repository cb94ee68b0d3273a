// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer that a tokenizer.json describes, as Hugging Face's `tokenizers` reads it.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "../engine/special_tokens.hpp"
#include "hf_tokenizer.hpp"
#include "model_folder.hpp"

namespace {

struct HfOptions {
  std::string file;
};

class Hf : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "hf";
  static constexpr const char* kSummary = "the tokenizer.json of a Hugging Face folder";
  using Options = HfOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("file", &Options::file)
        .required()
        .non_empty()
        .path()
        .doc("a tokenizer.json, or the folder that contains it");
  }

  explicit Hf(const Options& options)
      : folder_(tenon::read_model_folder(options.file)), tokenizer_(folder_.json, folder_.file) {
    for (const tenon::NamedToken& token : folder_.special_tokens) {
      const int32_t id = tokenizer_.id_of(token.text);
      if (id == tenon::TokenMap::kNone) {
        TENON_FAIL(TENON_INVALID,
                   "hf.file",
                   token.place,
                   " is \"",
                   token.text,
                   "\", which ",
                   folder_.file,
                   " lacks; add it to the added tokens of that file");
      }
      specials_.add(token.name, token.text, id);
    }
    folder_.json.clear();  // files has a copy
  }

  void describe(tenon_tokenizer_info& info) const override {
    info.vocab_size = tokenizer_.vocab_size();
    info.chat_template_ref =
        folder_.chat_template.empty() ? nullptr : folder_.chat_template.c_str();
    specials_.describe(info);
  }

  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    tenon::IdsReceiver receiver(sink);
    tokenizer_.encode(bytes, {}, tenon::Around::kNo, tenon::WithRanges::kNo, receiver);
  }

  void encode_pieces(const std::vector<tenon::TextPiece>& pieces,
                     uint32_t flags,
                     const tenon::TokensSink& sink) const override {
    const tenon::JoinedPieces joined(pieces);
    tenon::TokensReceiver receiver(sink);
    tokenizer_.encode(joined.text,
                      joined.templates,
                      (flags & TENON_ENCODE_AROUND) != 0 ? tenon::Around::kYes : tenon::Around::kNo,
                      tenon::WithRanges::kYes,
                      receiver);
  }

  void decode(const int32_t* ids, size_t n, const tenon::BytesSink& sink) const override {
    const std::string text = tokenizer_.decode(ids, n);
    sink(text.data(), text.size());
  }

  void files(const tenon::FilesSink& sink) const override {
    for (const auto& [name, bytes] : folder_.files) {
      sink(name, bytes);
    }
  }

 private:
  tenon::ModelFolder folder_;
  tenon::HfTokenizer tokenizer_;
  tenon::SpecialTokens specials_;
};

}  // namespace

TENON_PLUGIN(Hf)
