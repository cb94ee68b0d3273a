// SPDX-License-Identifier: Apache-2.0
//
// The lines or paragraphs of a text file as samples of different lengths for a language model.
//
// The file is tokenized once, and the ids stay in memory. A sample of n tokens has n - 1 positions,
// since its last token is only a label. Texts of fewer than two tokens are no samples.
// Invariant: labels are the input tokens shifted by one; no sample contains tokens of another.
// Threads: reads share immutable vectors.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/sample_places.hpp>
#include <tenon/cpp/source_files.hpp>
#include <tenon/cpp/stable_file.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "../plain_text.hpp"
#include "../special_text.hpp"
#include "../text_part.hpp"

namespace {

enum class Unit { kLine, kParagraph };

struct LinesOptions : TextPart {
  std::string path;
  tenon::ComponentOption tokenizer;
  Unit unit = Unit::kLine;
  tenon::SpecialTokens special_tokens = tenon::SpecialTokens::kError;
  bool label_bytes = false;
};

// Returns the lines that are not empty, each with its line break; with kParagraph, runs of such
// lines.
std::vector<std::string_view> units_of(std::string_view text, Unit unit) {
  std::vector<std::string_view> units;
  size_t begin = 0;  // of the unit
  for (size_t at = 0; at < text.size();) {
    const size_t line_break = text.find('\n', at);
    const size_t end = line_break == std::string_view::npos ? text.size() : line_break + 1;
    const std::string_view line = text.substr(at, end - at);
    const bool is_empty = line == "\n" || line == "\r\n";
    if (unit == Unit::kLine) {
      begin = at;
    }
    if (is_empty || unit == Unit::kLine) {
      const size_t unit_end = is_empty ? at : end;
      if (unit_end > begin) {
        units.push_back(text.substr(begin, unit_end - begin));
      }
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) {
    units.push_back(text.substr(begin));
  }
  return units;
}

class Lines : public tenon::MapDataset, public tenon::SourceFiles, public tenon::SamplePlaces {
 public:
  static constexpr const char* kType = "lines";
  static constexpr const char* kSummary =
      "lines or paragraphs of a text file as samples, with next-token labels";
  using Options = LinesOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path).required().non_empty().path().doc("text file");
    binder.field("tokenizer", &Options::tokenizer)
        .component("tokenizer", R"({"type": "byte"})")
        .doc("tokenizer of the text");
    binder.choice("unit", &Options::unit, {{"line", Unit::kLine}, {"paragraph", Unit::kParagraph}})
        .doc("text of a sample: a line, or the lines between empty lines");
    tenon::bind_special_tokens(binder, "in the file");
    binder.field("label_bytes", &Options::label_bytes)
        .doc("also give `label_bytes`, the bytes of text of each label; for bits_per_byte");
    bind_text_part(binder, "samples");
  }

  Lines(const Options& options, const tenon::CreateContext& context)
      : options_(options), tokenizer_(context.host, options.tokenizer) {
    options_.check();
  }

  void describe(tenon::DatasetInfo& info) override {
    tenon::StableFile file(options_.path, "lines");
    std::string text(static_cast<size_t>(file.size()), '\0');
    file.read(0, text.size(), text.data());
    file.check_unchanged(0);
    tenon::check_plain_text("lines", file.path(), text);
    recognizes_ = tenon::recognizes_special_tokens(
        kType, options_.special_tokens, tokenizer_, text, file.path());
    tokenize(text);
    const auto num_all = static_cast<int64_t>(begins_.size());
    first_ = options_.first(num_all);
    num_samples_ = options_.end(num_all) - first_;
    if (num_samples_ == 0) {
      TENON_FAIL(TENON_INVALID,
                 "lines.empty",
                 file.path(),
                 " has ",
                 begins_.size(),
                 " samples of at least two tokens, and none of them between fractions ",
                 options_.from,
                 " and ",
                 options_.to);
    }
    input_ids_ = info.field("input_ids", {"B", "T"}, TENON_I64);
    labels_ = info.field("labels", {"B", "T"}, TENON_I64, kIgnored);
    if (options_.label_bytes) {
      label_bytes_ = info.field("label_bytes", {"B", "T"}, TENON_I64);
    }
  }

  int64_t size(const tenon_window*) override { return num_samples_; }

  const void* extension(const char* id) override {
    const void* const files = tenon::SourceFilesCalls<Lines>::find(id);
    return files != nullptr ? files : tenon::SamplePlacesCalls<Lines>::find(id);
  }
  std::string place_of(const tenon_window*, int64_t index) override {
    return options_.path + ", line " + std::to_string(lines_[sample(index)]);
  }
  void list_files(const tenon_window*, tenon::SourceFileList& files) override {
    files.add(options_.path);
  }

  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    std::vector<int64_t> lengths;
    int64_t width = 0;
    int64_t tokens = 0;
    for (size_t b = 0; b < n; ++b) {
      lengths.push_back(lengths_[sample(indices[b])]);
      width = std::max(width, lengths.back());
      tokens += lengths.back();
    }
    const auto batch = static_cast<int64_t>(n);
    auto* inputs_BT = writer.add<int64_t>(input_ids_, {batch, width});
    auto* labels_BT = writer.add<int64_t>(labels_, {batch, width});
    for (size_t b = 0; b < n; ++b) {
      const int32_t* const ids = &ids_[begins_[sample(indices[b])]];
      for (int64_t t = 0; t < width; ++t) {
        const bool is_valid = t < lengths[b];
        *inputs_BT++ = is_valid ? ids[t] : 0;
        *labels_BT++ = is_valid ? ids[t + 1] : kIgnored;
      }
    }
    if (options_.label_bytes) {
      auto* bytes_BT = writer.add<int64_t>(label_bytes_, {batch, width});
      for (size_t b = 0; b < n; ++b) {
        const uint32_t* const bytes = &bytes_[begins_[sample(indices[b])]];
        for (int64_t t = 0; t < width; ++t) {
          *bytes_BT++ = t < lengths[b] ? bytes[t + 1] : 0;
        }
      }
    }
    writer.set_counts(batch, tokens);
    writer.set_lengths(lengths);
  }

  void lengths(const tenon_window*, int64_t first, size_t n, int64_t* out) override {
    for (size_t i = 0; i < n; ++i) {
      out[i] = lengths_[sample(first + static_cast<int64_t>(i))];
    }
  }

 private:
  static constexpr int64_t kIgnored = -100;

  void tokenize(std::string_view text) {
    if (options_.label_bytes && !tokenizer_.has_pieces()) {
      TENON_FAIL(TENON_INVALID,
                 "lines.label_bytes",
                 "the tokenizer does not give the byte ranges that `label_bytes` needs; set "
                 "`label_bytes` to false, or use another tokenizer");
    }
    const char* counted = text.data();
    int64_t line = 1;
    for (const std::string_view unit : units_of(text, options_.unit)) {
      line += std::count(counted, unit.data(), '\n');
      counted = unit.data();
      std::vector<uint32_t> bytes;
      const std::vector<int32_t> ids = tenon::encode_text(
          tokenizer_, unit, recognizes_, options_.label_bytes ? &bytes : nullptr);
      if (ids.size() < 2) {
        continue;
      }
      TENON_CHECK(ids.size() <= std::numeric_limits<int32_t>::max(), "a text has too many tokens");
      lines_.push_back(line);
      begins_.push_back(ids_.size());
      lengths_.push_back(static_cast<int32_t>(ids.size() - 1));
      ids_.insert(ids_.end(), ids.begin(), ids.end());
      bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
  }

  // The number of a sample among those of the whole file.
  size_t sample(int64_t index) const {
    TENON_CHECK(0 <= index && index < num_samples_,
                "sample ",
                index,
                " is out of range [0, ",
                num_samples_,
                ")");
    return static_cast<size_t>(first_ + index);
  }

  Options options_;
  tenon::TokenizerRef tokenizer_;
  std::vector<int32_t> ids_;      // of all samples
  std::vector<uint32_t> bytes_;   // of the text of each id, with label_bytes
  std::vector<int64_t> lines_;    // by sample: the line on which it begins, from 1
  std::vector<size_t> begins_;    // by sample: its first id
  std::vector<int32_t> lengths_;  // by sample: positions, one less than ids
  bool recognizes_ = false;       // special tokens
  int64_t first_ = 0;
  int64_t num_samples_ = 0;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
  uint32_t label_bytes_ = 0;
};

}  // namespace

TENON_PLUGIN(Lines)
