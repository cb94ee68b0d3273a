// SPDX-License-Identifier: Apache-2.0
//
// A map-style dataset for language models whose samples count unequally: of most, some labels are
// ignored, and of every fifth one all. Everything is a formula of the sample's number and the
// place in it.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <string>

namespace {

struct TokenRowsOptions {
  int64_t samples = 64;
  int64_t length = 8;
  int64_t vocab_size = 16;
  bool ragged = true;
};

// Source  Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014): the mixing
//         of splitmix64
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

class TokenRows : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "token_rows";
  static constexpr const char* kSummary = "for tests: rows of tokens with unequally many labels";
  using Options = TokenRowsOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("samples", &Options::samples).min(0).doc("number of samples");
    binder.field("length", &Options::length).min(1).doc("tokens in a sample");
    binder.field("vocab_size", &Options::vocab_size).min(2).doc("tokens are below it");
    binder.field("ragged", &Options::ragged).doc("whether labels are ignored here and there");
  }

  explicit TokenRows(const Options& options) : options_(options) {}

  void describe(tenon::DatasetInfo& info) override {
    input_ids_ = info.field("input_ids", {"B", tenon::Axis("T", options_.length)}, TENON_I64);
    labels_ = info.field("labels", {"B", tenon::Axis("T", options_.length)}, TENON_I64, -100);
  }

  int64_t size(const tenon_window*) override { return options_.samples; }

  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const auto batch = static_cast<int64_t>(n);
    auto* inputs_BT = writer.add<int64_t>(input_ids_, {batch, options_.length});
    auto* labels_BT = writer.add<int64_t>(labels_, {batch, options_.length});
    for (size_t b = 0; b < n; ++b) {
      for (int64_t t = 0; t < options_.length; ++t) {
        *inputs_BT++ = token(indices[b], t);
        *labels_BT++ = has_label(indices[b], t) ? token(indices[b], t + 1) : -100;
      }
    }
    writer.set_counts(batch, batch * options_.length);
  }

 private:
  int64_t token(int64_t sample, int64_t position) const {
    const auto key = static_cast<uint64_t>(sample * (options_.length + 1) + position);
    return static_cast<int64_t>(mixed(key) % static_cast<uint64_t>(options_.vocab_size));
  }
  // The first places, more of them or fewer.
  bool has_label(int64_t sample, int64_t position) const {
    return !options_.ragged || (sample % 5 != 0 && position <= (sample * 7) % options_.length);
  }

  Options options_;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
};

}  // namespace

TENON_PLUGIN(TokenRows)
