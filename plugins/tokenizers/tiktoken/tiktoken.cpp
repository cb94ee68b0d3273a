// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer of ranked vocabularies: files of tiktoken, and Mistral's tekken.json.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../engine/special_tokens.hpp"
#include "../engine/text_file.hpp"
#include "rank_tokenizer.hpp"

namespace {

struct SpecialOptions {
  std::string text;
  std::string name;
  std::optional<int64_t> id;
  static void bind(tenon::OptionBinder<SpecialOptions>& binder) {
    binder.field("text", &SpecialOptions::text)
        .required()
        .non_empty()
        .doc("the token, for example </s>");
    binder.field("name", &SpecialOptions::name)
        .doc("name for templates and the host, for example bos_token or eos_token; empty: none");
    binder.field("id", &SpecialOptions::id)
        .min(0)
        .max(INT32_MAX - 1)
        .doc("its id; null: the one after the token before it, or after the vocabulary");
  }
};

struct TiktokenOptions {
  std::string file;
  std::string pattern;
  std::vector<SpecialOptions> special_tokens;
  std::string chat_template;
  bool add_bos = true;
  bool add_eos = false;
};

std::string read_file(const std::string& path) {
  return tenon::read_text(path, "tiktoken", tenon::kMostTokenizerBytes);
}

class Tiktoken : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "tiktoken";
  static constexpr const char* kSummary = "vocabularies of tiktoken, and Mistral's tekken.json";
  using Options = TiktokenOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("file", &Options::file)
        .required()
        .non_empty()
        .path()
        .doc("a .tiktoken file, a tokenizer.model of Llama 3 or 4, or a tekken.json");
    binder.field("pattern", &Options::pattern)
        .doc(
            "gpt2, cl100k, o200k, llama3, qwen2, qwen3_5, tekken or a regular expression; empty: "
            "the file's own");
    binder.field("special_tokens", &Options::special_tokens)
        .doc("special tokens besides the file's own");
    binder.field("chat_template", &Options::chat_template)
        .path()
        .doc("file of a Jinja template for chats; empty: none");
    binder.field("add_bos", &Options::add_bos)
        .doc("put the token named bos_token, if any, before texts that get tokens around");
    binder.field("add_eos", &Options::add_eos)
        .doc("put the token named eos_token, if any, after texts that get tokens around");
  }

  explicit Tiktoken(const Options& options) {
    const std::string text = read_file(options.file);
    tenon::RankFile file = tenon::read_rank_file(text, options.file);
    name_ =
        file.is_tekken ? "tekken.json" : std::filesystem::path(options.file).filename().string();
    std::string pattern(tenon::named_pattern(options.pattern));
    if (pattern.empty()) {
      pattern = options.pattern.empty() ? file.pattern : options.pattern;
    }
    if (pattern.empty()) {
      TENON_FAIL(TENON_INVALID,
                 "tiktoken.pattern",
                 options.file,
                 " has no split pattern; set `pattern`, for example to \"cl100k\"");
    }
    std::vector<tenon::RankedToken> specials = std::move(file.specials);
    int64_t next = file.first_id + static_cast<int64_t>(file.by_rank.size());
    for (const SpecialOptions& special : options.special_tokens) {
      next = special.id.value_or(next);
      specials.push_back({special.name, special.text, next});
      ++next;
    }
    for (const tenon::RankedToken& special : specials) {
      if (!special.name.empty()) {
        specials_.add(special.name, special.text, special.id);
      }
    }
    tokenizer_ = std::make_unique<tenon::RankTokenizer>(std::move(file), pattern, specials);
    tenon_tokenizer_info info{};
    info.bos = info.eos = info.pad = -1;
    specials_.describe(info);
    bos_ = options.add_bos ? static_cast<int32_t>(info.bos) : -1;
    eos_ = options.add_eos ? static_cast<int32_t>(info.eos) : -1;
    content_ = text;
    if (!options.chat_template.empty()) {
      chat_template_ = read_file(options.chat_template);
    }
  }

  void describe(tenon_tokenizer_info& info) const override {
    info.vocab_size = tokenizer_->vocab_size();
    info.chat_template_ref = chat_template_.empty() ? nullptr : chat_template_.c_str();
    specials_.describe(info);
  }

  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    tenon::IdsReceiver receiver(sink);
    tokenizer_->encode(bytes, {}, tenon::WithRanges::kNo, receiver);
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
    tokenizer_->encode(joined.text, joined.templates, tenon::WithRanges::kYes, receiver);
    add(eos_, joined.text.size());
  }

  void decode(const int32_t* ids, size_t n, const tenon::BytesSink& sink) const override {
    const std::string text = tokenizer_->decode(ids, n);
    sink(text.data(), text.size());
  }

  void files(const tenon::FilesSink& sink) const override {
    sink(name_, content_);
    if (!chat_template_.empty()) {
      sink("chat_template.jinja", chat_template_);
    }
  }

 private:
  std::string name_;
  std::string content_;
  std::string chat_template_;
  std::unique_ptr<tenon::RankTokenizer> tokenizer_;
  tenon::SpecialTokens specials_;
  int32_t bos_ = -1;
  int32_t eos_ = -1;
};

}  // namespace

TENON_PLUGIN(Tiktoken)
