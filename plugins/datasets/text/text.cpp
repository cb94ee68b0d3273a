// SPDX-License-Identifier: Apache-2.0
//
// Token sequences of a text file as samples for a language model.
//
// If every token has a fixed number of bytes, samples are read from the file by `pread`. A memory
// mapping would raise SIGBUS if the file were truncated. With any other tokenizer, the file is
// tokenized once and the ids stay in memory.
// Invariant: labels are the input tokens shifted by one.
// Threads: reads share an immutable file descriptor or vector.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/source_files.hpp>
#include <tenon/cpp/stable_file.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../plain_text.hpp"
#include "../special_text.hpp"
#include "../text_part.hpp"

namespace {

struct TextOptions : TextPart {
  std::string path;
  tenon::ComponentOption tokenizer;
  int64_t sequence_length = 128;
  std::optional<int64_t> stride;
  tenon::SpecialTokens special_tokens = tenon::SpecialTokens::kError;
  bool label_bytes = false;
};

class Text : public tenon::MapDataset, public tenon::SourceFiles {
 public:
  static constexpr const char* kType = "text";
  static constexpr const char* kSummary = "token sequences of a text file, with next-token labels";
  using Options = TextOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path).required().non_empty().path().doc("text file");
    binder.field("tokenizer", &Options::tokenizer)
        .component("tokenizer", R"({"type": "byte"})")
        .doc("tokenizer of the text");
    binder.field("sequence_length", &Options::sequence_length)
        .min(1)
        .max(kMaxLength)
        .doc("tokens per sample");
    binder.field("stride", &Options::stride)
        .min(1)
        .max(kMaxLength)
        .doc(
            "tokens between the starts of consecutive samples; null: sequence_length, without "
            "overlap");
    tenon::bind_special_tokens(binder, "in the file");
    binder.field("label_bytes", &Options::label_bytes)
        .doc("also give `label_bytes`, the bytes of text of each label; for bits_per_byte");
    bind_text_part(binder, "tokens");
  }

  Text(const Options& options, const tenon::CreateContext& context)
      : options_(options), tokenizer_(context.host, options.tokenizer) {
    options_.check();
    length_ = options_.sequence_length;
    stride_ = options_.stride.value_or(length_);
  }

  void describe(tenon::DatasetInfo& info) override {
    file_.emplace(options_.path, "text");
    if (file_->size() == 0) {
      TENON_FAIL(TENON_INVALID, "text.empty", file_->path(), " is empty");
    }
    std::string start(std::min<size_t>(static_cast<size_t>(file_->size()), 8), '\0');
    file_->read(0, start.size(), start.data());
    tenon::check_plain_text("text", file_->path(), start);
    bytes_per_token_ = tokenizer_.describe().bytes_per_token;
    int64_t num_tokens = 0;
    if (bytes_per_token_ > 0) {
      num_tokens = file_->size() / bytes_per_token_;
    } else {
      std::string text(static_cast<size_t>(file_->size()), '\0');
      file_->read(0, text.size(), text.data());
      file_->check_unchanged(0);
      encode(text);
      num_tokens = static_cast<int64_t>(ids_.size());
    }
    first_token_ = options_.first(num_tokens);
    const int64_t in_part = options_.end(num_tokens) - first_token_;
    if (in_part < length_ + 1) {
      TENON_FAIL(TENON_INVALID,
                 "text.too_short",
                 file_->path(),
                 " has ",
                 in_part,
                 " tokens between fractions ",
                 options_.from,
                 " and ",
                 options_.to,
                 ", but a sample needs ",
                 length_ + 1,
                 " (`sequence_length` + 1)");
    }
    num_samples_ = (in_part - 1 - length_) / stride_ + 1;
    input_ids_ = info.field("input_ids", {"B", tenon::Axis("T", length_)}, TENON_I64);
    labels_ = info.field("labels", {"B", tenon::Axis("T", length_)}, TENON_I64, -100);
    if (options_.label_bytes) {
      label_bytes_ = info.field("label_bytes", {"B", tenon::Axis("T", length_)}, TENON_I64);
    }
  }

  int64_t size(const tenon_window*) override { return num_samples_; }

  const void* extension(const char* id) override { return tenon::SourceFilesCalls<Text>::find(id); }
  void list_files(const tenon_window*, tenon::SourceFileList& files) override {
    files.add(options_.path);
  }

  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const auto batch = static_cast<int64_t>(n);
    auto* inputs_BT = writer.add<int64_t>(input_ids_, {batch, length_});
    auto* labels_BT = writer.add<int64_t>(labels_, {batch, length_});
    if (options_.label_bytes) {
      write_label_bytes(indices, n, writer);
    }
    std::vector<int32_t> read_ids;
    if (bytes_per_token_ > 0) {
      read_ids = read_from_file(indices, n);
    }
    const auto sample_size = static_cast<size_t>(length_) + 1;
    for (size_t b = 0; b < n; ++b) {
      const int32_t* ids =
          bytes_per_token_ > 0 ? &read_ids[b * sample_size] : &ids_[first_token_of(indices[b])];
      for (int64_t t = 0; t < length_; ++t) {
        *inputs_BT++ = ids[t];
        *labels_BT++ = ids[t + 1];
      }
    }
    writer.set_counts(batch, batch * length_);
  }

 private:
  // Maximum of sequence_length and stride. Keeps their products within 63 bits.
  static constexpr int64_t kMaxLength = int64_t{1} << 30;

  void encode(const std::string& text) {
    const bool recognizes = tenon::recognizes_special_tokens(
        kType, options_.special_tokens, tokenizer_, text, file_->path());
    if (options_.label_bytes && !tokenizer_.has_pieces()) {
      TENON_FAIL(TENON_INVALID,
                 "text.label_bytes",
                 "the tokenizer does not give the byte ranges that `label_bytes` needs; set "
                 "`label_bytes` to false, or use another tokenizer");
    }
    ids_ =
        tenon::encode_text(tokenizer_, text, recognizes, options_.label_bytes ? &bytes_ : nullptr);
  }

  void write_label_bytes(const int64_t* indices, size_t n, tenon::BatchWriter& writer) const {
    auto* bytes_BT = writer.add<int64_t>(label_bytes_, {static_cast<int64_t>(n), length_});
    for (size_t b = 0; b < n; ++b) {
      const size_t first = first_token_of(indices[b]) + 1;
      for (size_t t = 0; t < static_cast<size_t>(length_); ++t) {
        *bytes_BT++ = static_cast<int64_t>(bytes_per_token_ > 0 ? bytes_per_token_
                                                                : size_t{bytes_[first + t]});
      }
    }
  }

  size_t first_token_of(int64_t index) const {
    TENON_CHECK(0 <= index && index < num_samples_,
                "sample ",
                index,
                " is out of range [0, ",
                num_samples_,
                ")");
    return static_cast<size_t>(first_token_ + index * stride_);
  }

  // Concatenated ids of several samples, `length_` + 1 each. Tokens are whole bytes, so
  // concatenated text has the concatenated ids.
  std::vector<int32_t> read_from_file(const int64_t* indices, size_t n) const {
    const size_t sample_bytes = (static_cast<size_t>(length_) + 1) * bytes_per_token_;
    std::string text(n * sample_bytes, '\0');
    int64_t offset = 0;
    for (size_t b = 0; b < n; ++b) {
      offset = static_cast<int64_t>(first_token_of(indices[b]) * bytes_per_token_);
      file_->read(offset, sample_bytes, &text[b * sample_bytes]);
    }
    file_->check_unchanged(offset);
    std::vector<int32_t> ids = tokenizer_.encode(text);
    if (ids.size() != text.size() / bytes_per_token_) {
      TENON_FAIL(TENON_INTERNAL,
                 "text.tokenizer",
                 "the tokenizer declared ",
                 bytes_per_token_,
                 " bytes per token but returned ",
                 ids.size(),
                 " tokens for ",
                 text.size(),
                 " bytes");
    }
    return ids;
  }

  Options options_;
  tenon::TokenizerRef tokenizer_;
  int64_t length_ = 0;
  int64_t stride_ = 0;
  std::optional<tenon::StableFile> file_;
  std::vector<int32_t> ids_;     // of the whole file; empty if samples are read from the file
  std::vector<uint32_t> bytes_;  // of the text of each id, with label_bytes
  size_t bytes_per_token_ = 0;
  int64_t first_token_ = 0;
  int64_t num_samples_ = 0;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
  uint32_t label_bytes_ = 0;
};

}  // namespace

TENON_PLUGIN(Text)
