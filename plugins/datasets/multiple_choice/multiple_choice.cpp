// SPDX-License-Identifier: Apache-2.0
//
// Questions with choices, for the metric of the same name. A sample is a question with one of its
// choices; labels are on the tokens of the choice.
//
// The text of a sample is tokenized as a whole. The tokens of the choice are those after the first
// n, where n is the number of tokens of the context alone. White space at the end of the context
// belongs to the choice.
// Invariants: each sample has a label; samples of a question are adjacent, in the order of its
// choices. Threads: reads share immutable vectors.
//
// Source: lm-eval 0.4.13, TemplateLM._encode_pair and HFLM._loglikelihood_tokens.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/sample_places.hpp>
#include <tenon/cpp/source_files.hpp>
#include <tenon/cpp/stable_file.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "choice_question.hpp"

namespace tenon {
namespace {

constexpr int64_t kIgnored = -100;
constexpr int64_t kMaxMaxLength = int64_t{1} << 30;

struct ChoiceOptions {
  std::string path;
  ComponentOption tokenizer;
  std::string prompt = "Question: {question}\nAnswer:";
  std::string delimiter = " ";
  bool bos = false;
  std::optional<int64_t> max_length;
};

// A question with one choice. Its last token is only a label.
struct ChoiceSample {
  std::vector<int32_t> ids;
  size_t num_context = 0;  // tokens without a label
  int64_t question = 0;
  int64_t choice = 0;
  int64_t num_choices = 0;
  int64_t characters = 0;
  int64_t answer = 0;
  size_t line = 0;

  int64_t length() const { return static_cast<int64_t>(ids.size()) - 1; }
};

class MultipleChoice : public MapDataset, public SourceFiles, public SamplePlaces {
 public:
  static constexpr const char* kType = "multiple_choice";
  static constexpr const char* kSummary =
      "questions with choices, with labels on the choices; for evaluation";
  using Options = ChoiceOptions;
  static void bind(OptionBinder<Options>& binder) {
    binder.field("path", &Options::path)
        .required()
        .non_empty()
        .path()
        .doc("JSON lines, each with \"choices\", \"answer\" and the texts of `prompt`");
    binder.field("tokenizer", &Options::tokenizer)
        .component("tokenizer", R"({"type": "byte"})")
        .doc("tokenizer of the text");
    binder.field("prompt", &Options::prompt)
        .doc("text before a choice; {KEY} stands for the text of this key of the line");
    binder.field("delimiter", &Options::delimiter).doc("text between prompt and choice");
    binder.field("bos", &Options::bos)
        .doc("start each sample with the tokenizer's token for the beginning of a text");
    binder.field("max_length", &Options::max_length)
        .min(2)
        .max(kMaxMaxLength)
        .doc("maximum tokens of a sample; the start of longer ones is cut off. null: no limit");
  }

  MultipleChoice(const Options& options, const CreateContext& context)
      : options_(options), tokenizer_(context.host, options.tokenizer), own_host_(context.host) {}

  void describe(DatasetInfo& info) override {
    const tenon_tokenizer_info tokenizer = tokenizer_.describe();
    bos_ = tokenizer.bos;
    start_ = tokenizer.bos >= 0 ? tokenizer.bos : tokenizer.eos;
    if (options_.bos && bos_ < 0) {
      TENON_FAIL(TENON_INVALID,
                 "multiple_choice.no_bos",
                 "`bos` is true, but the tokenizer has no token for the beginning of a text; set "
                 "`bos` to false");
    }
    read_file();
    pad_ = tokenizer.pad >= 0 ? tokenizer.pad : std::max<int64_t>(tokenizer.eos, 0);
    input_ids_ = info.field("input_ids", {"B", "T"}, TENON_I64, static_cast<double>(pad_));
    labels_ = info.field("labels", {"B", "T"}, TENON_I64, kIgnored);
    question_ = info.field("question", {"B"}, TENON_I64);
    choice_ = info.field("choice", {"B"}, TENON_I64);
    num_choices_ = info.field("num_choices", {"B"}, TENON_I64);
    characters_ = info.field("characters", {"B"}, TENON_I64);
    answer_ = info.field("answer", {"B"}, TENON_I64);
  }

  int64_t size(const tenon_window*) override { return static_cast<int64_t>(samples_.size()); }

  const void* extension(const char* id) override {
    const void* const files = SourceFilesCalls<MultipleChoice>::find(id);
    return files != nullptr ? files : SamplePlacesCalls<MultipleChoice>::find(id);
  }
  std::string place_of(const tenon_window*, int64_t index) override {
    return concat(options_.path, ", line ", sample(index).line);
  }
  void list_files(const tenon_window*, SourceFileList& files) override { files.add(options_.path); }

  void lengths(const tenon_window*, int64_t first, size_t n, int64_t* out) override {
    for (size_t i = 0; i < n; ++i) {
      out[i] = sample(first + static_cast<int64_t>(i)).length();
    }
  }

  void read(const tenon_window*, const int64_t* indices, size_t n, BatchWriter& writer) override {
    std::vector<int64_t> lengths;
    int64_t width = 0;
    int64_t tokens = 0;
    for (size_t b = 0; b < n; ++b) {
      lengths.push_back(sample(indices[b]).length());
      width = std::max(width, lengths.back());
      tokens += lengths.back();
    }
    const auto batch = static_cast<int64_t>(n);
    auto* inputs_BT = writer.add<int64_t>(input_ids_, {batch, width});
    auto* labels_BT = writer.add<int64_t>(labels_, {batch, width});
    auto* const question_B = writer.add<int64_t>(question_, {batch});
    auto* const choice_B = writer.add<int64_t>(choice_, {batch});
    auto* const num_choices_B = writer.add<int64_t>(num_choices_, {batch});
    auto* const characters_B = writer.add<int64_t>(characters_, {batch});
    auto* const answer_B = writer.add<int64_t>(answer_, {batch});
    for (size_t b = 0; b < n; ++b) {
      const ChoiceSample& one = sample(indices[b]);
      question_B[b] = one.question;
      choice_B[b] = one.choice;
      num_choices_B[b] = one.num_choices;
      characters_B[b] = one.characters;
      answer_B[b] = one.answer;
      for (int64_t t = 0; t < width; ++t) {
        const auto next = static_cast<size_t>(t) + 1;
        const bool is_valid = t < one.length();
        *inputs_BT++ = is_valid ? one.ids[next - 1] : pad_;
        *labels_BT++ = is_valid && next >= one.num_context ? one.ids[next] : kIgnored;
      }
    }
    writer.set_counts(batch, tokens);
    writer.set_lengths(lengths);
  }

 private:
  void read_file() {
    StableFile file(options_.path, "multiple_choice");
    std::string text(static_cast<size_t>(file.size()), '\0');
    file.read(0, text.size(), text.data());
    file.check_unchanged(0);
    int64_t num_questions = 0;
    size_t line = 1;
    for (size_t begin = 0; begin < text.size(); ++line) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view bytes = std::string_view(text).substr(begin, end - begin);
      if (bytes.find_first_not_of(" \t\r") != std::string_view::npos) {
        try {
          add(parse_question(bytes, options_.prompt), num_questions++, line);
        } catch (const Error& error) {
          throw Error(
              error.code(), error.id(), concat(options_.path, ", line ", line, ": ", error.what()));
        }
      }
      begin = end + 1;
    }
    if (samples_.empty()) {
      TENON_FAIL(TENON_INVALID, "multiple_choice.empty", options_.path, " has no questions");
    }
    if (num_cut_ > 0) {
      own_host_.log_warn(options_.path,
                         ": cut off the start of ",
                         num_cut_,
                         " samples with more than ",
                         *options_.max_length,
                         " tokens (`max_length`)");
    }
  }

  void add(const ChoiceQuestion& question, int64_t number, size_t line) {
    std::string context = question.context;
    const size_t last = context.find_last_not_of(" \t\r\n\v\f");
    const size_t size = last == std::string::npos ? 0 : last + 1;
    const std::string between = context.substr(size) + options_.delimiter;
    context.resize(size);
    const size_t num_context = tokenizer_.encode(context).size();
    for (size_t i = 0; i < question.choices.size(); ++i) {
      ChoiceSample one;
      one.line = line;
      one.ids = tokenizer_.encode(context + between + question.choices[i]);
      one.num_context = num_context;
      if (one.ids.size() <= num_context) {
        TENON_FAIL(TENON_INVALID,
                   "multiple_choice.no_tokens",
                   "choice ",
                   i,
                   " has no tokens of its own after the prompt; change `prompt` or `delimiter`");
      }
      put_start(one);
      cut(one);
      one.question = number;
      one.choice = static_cast<int64_t>(i);
      one.num_choices = static_cast<int64_t>(question.choices.size());
      one.characters = num_characters(question.choices[i]);
      one.answer = question.answer;
      samples_.push_back(std::move(one));
    }
  }

  // A choice needs a token before it.
  void put_start(ChoiceSample& sample) const {
    if (!options_.bos && sample.num_context > 0) {
      return;
    }
    const int64_t start = options_.bos ? bos_ : start_;
    if (start < 0) {
      TENON_FAIL(TENON_INVALID,
                 "multiple_choice.no_context",
                 "the prompt is empty, and the tokenizer has no token that starts a text; set "
                 "`prompt`");
    }
    sample.ids.insert(sample.ids.begin(), static_cast<int32_t>(start));
    ++sample.num_context;
  }

  // Keeps the last tokens; one token in front of the choice always remains.
  void cut(ChoiceSample& sample) {
    if (!options_.max_length || sample.length() <= *options_.max_length) {
      return;
    }
    const auto kept = static_cast<size_t>(*options_.max_length) + 1;
    const size_t num_cut = sample.ids.size() - kept;
    if (num_cut >= sample.num_context) {
      TENON_FAIL(TENON_INVALID,
                 "multiple_choice.too_long",
                 "a choice has ",
                 sample.ids.size() - sample.num_context,
                 " tokens, and with `max_length` ",
                 *options_.max_length,
                 " no token of the prompt remains; increase `max_length`");
    }
    sample.ids.erase(sample.ids.begin(), sample.ids.begin() + static_cast<std::ptrdiff_t>(num_cut));
    sample.num_context -= num_cut;
    ++num_cut_;
  }

  const ChoiceSample& sample(int64_t index) const {
    TENON_CHECK(0 <= index && index < static_cast<int64_t>(samples_.size()),
                "sample ",
                index,
                " is out of range [0, ",
                samples_.size(),
                ")");
    return samples_[static_cast<size_t>(index)];
  }

  Options options_;
  TokenizerRef tokenizer_;
  Host own_host_;
  std::vector<ChoiceSample> samples_;
  size_t num_cut_ = 0;
  int64_t bos_ = -1;
  int64_t start_ = -1;  // bos, or else eos
  int64_t pad_ = 0;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
  uint32_t question_ = 0;
  uint32_t choice_ = 0;
  uint32_t num_choices_ = 0;
  uint32_t characters_ = 0;
  uint32_t answer_ = 0;
};

}  // namespace
}  // namespace tenon

TENON_PLUGIN(tenon::MultipleChoice)
