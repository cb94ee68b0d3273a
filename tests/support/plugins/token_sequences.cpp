// SPDX-License-Identifier: Apache-2.0
//
// A map-style dataset for language models whose samples have different lengths, and faults on
// demand. Everything is a formula of the sample's number and the place in it.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

enum class Fault {
  kNone,
  kZero,      // `lengths` says that sample 3 is empty
  kNegative,  // `lengths` says that it has -1 tokens
  kDiffers,   // `read` gives it a token less than `lengths` says
  kWide,      // `read` gives it more tokens than the axis T
  kCount,     // `read` counts a token more than the lengths
  kFew        // `read` sets a length less than it has samples
};

struct TokenSequencesOptions {
  int64_t samples = 64;
  int64_t max_length = 16;
  int64_t vocab_size = 16;
  int64_t windows = 0;
  bool per_sample = false;
  bool ignored = false;
  Fault fault = Fault::kNone;
};

// Source  Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014): the mixing
//         of splitmix64
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

class TokenSequences : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "token_sequences";
  static constexpr const char* kSummary = "for tests: sequences of tokens of different lengths";
  using Options = TokenSequencesOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("samples", &Options::samples).min(0).doc("number of samples, of each window");
    binder.field("max_length", &Options::max_length).min(1).doc("tokens of the longest samples");
    binder.field("vocab_size", &Options::vocab_size).min(2).doc("tokens are below it");
    binder.field("windows", &Options::windows).min(0).doc("number of windows; 0: no windows");
    binder.field("per_sample", &Options::per_sample).doc("a field with one entry per sample");
    binder.field("ignored", &Options::ignored).doc("ignore some labels");
    binder
        .choice("fault",
                &Options::fault,
                {{"none", Fault::kNone},
                 {"zero", Fault::kZero},
                 {"negative", Fault::kNegative},
                 {"differs", Fault::kDiffers},
                 {"wide", Fault::kWide},
                 {"count", Fault::kCount},
                 {"few", Fault::kFew}})
        .doc("what goes wrong with sample 3");
  }

  explicit TokenSequences(const Options& options) : options_(options) {}

  void describe(tenon::DatasetInfo& info) override {
    input_ids_ = info.field("input_ids", {"B", "T"}, TENON_I64);
    labels_ = info.field("labels", {"B", "T"}, TENON_I64, -100);
    if (options_.per_sample) {
      number_ = info.field("number", {"B"}, TENON_I64);
    }
    if (options_.windows > 0) {
      info.windows();
    }
  }

  int64_t size(const tenon_window*) override { return options_.samples; }

  bool next_window(tenon::Window& out) override {
    if (next_window_ == options_.windows) {
      return false;
    }
    out.id = static_cast<uint64_t>(++next_window_);
    out.label = "window-" + std::to_string(next_window_);
    out.size = options_.samples;
    return true;
  }
  void reset(uint64_t) override { next_window_ = 0; }

  void lengths(const tenon_window* window, int64_t first, size_t n, int64_t* out) override {
    for (size_t i = 0; i < n; ++i) {
      const int64_t sample = first + static_cast<int64_t>(i);
      out[i] = length(window, sample);
      if (sample == kFaulty && options_.fault == Fault::kZero) {
        out[i] = 0;
      }
      if (sample == kFaulty && options_.fault == Fault::kNegative) {
        out[i] = -1;
      }
    }
  }

  void read(const tenon_window* window,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    std::vector<int64_t> lengths;
    bool is_faulty = false;
    for (size_t b = 0; b < n; ++b) {
      const bool differs = options_.fault == Fault::kDiffers && indices[b] == kFaulty;
      lengths.push_back(length(window, indices[b]) - (differs ? 1 : 0));
      is_faulty = is_faulty || indices[b] == kFaulty;
    }
    const int64_t width = n == 0 ? 0 : *std::max_element(lengths.begin(), lengths.end());
    const auto batch = static_cast<int64_t>(n);
    auto* inputs_BT = writer.add<int64_t>(input_ids_, {batch, width});
    auto* labels_BT = writer.add<int64_t>(labels_, {batch, width});
    int64_t tokens = 0;
    for (size_t b = 0; b < n; ++b) {
      tokens += lengths[b];
      for (int64_t t = 0; t < width; ++t) {
        const bool is_valid = t < lengths[b];
        const bool has_label = is_valid && !(options_.ignored && (indices[b] + t) % 3 == 0);
        *inputs_BT++ = is_valid ? token(window, indices[b], t) : 0;
        *labels_BT++ = has_label ? token(window, indices[b], t + 1) : -100;
      }
    }
    if (options_.per_sample) {
      std::copy(indices, indices + n, writer.add<int64_t>(number_, {batch}));
    }
    if (is_faulty && options_.fault == Fault::kCount) {
      ++tokens;
    }
    if (is_faulty && options_.fault == Fault::kWide) {
      tokens += width + 1 - lengths.back();
      lengths.back() = width + 1;
    }
    if (is_faulty && options_.fault == Fault::kFew) {
      lengths.pop_back();
    }
    writer.set_counts(batch, tokens);
    writer.set_lengths(lengths);
  }

 private:
  static constexpr int64_t kFaulty = 3;

  static uint64_t key(const tenon_window* window, int64_t sample, int64_t position) {
    const uint64_t id = window != nullptr ? window->id : 0;
    return (id << 50) + static_cast<uint64_t>(sample) * 65536 + static_cast<uint64_t>(position);
  }
  // Short samples are more frequent than long ones.
  int64_t length(const tenon_window* window, int64_t sample) const {
    const uint64_t bits = mixed(key(window, sample, 65535));
    const auto most = static_cast<uint64_t>(options_.max_length);
    return 1 + static_cast<int64_t>(std::min(bits % most, (bits >> 32) % most));
  }
  int64_t token(const tenon_window* window, int64_t sample, int64_t position) const {
    return static_cast<int64_t>(mixed(key(window, sample, position)) %
                                static_cast<uint64_t>(options_.vocab_size));
  }

  Options options_;
  int64_t next_window_ = 0;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
  uint32_t number_ = 0;
};

}  // namespace

TENON_PLUGIN(TokenSequences)
