// SPDX-License-Identifier: Apache-2.0
//
// A map-style dataset of preferences: each sample is a prompt with a chosen answer, and the prompt
// with a rejected answer, as two segments of a row, then padding. Everything is a formula of the
// sample's number and the place in it (tests/parity/preference_golden.py has the same).
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

struct PairRowsOptions {
  int64_t samples = 80;
  int64_t vocab_size = 64;
  bool one_token_prompts = false;
  int64_t lonely = -1;
  bool has_logps = false;
};

// Source  Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014): the mixing
//         of splitmix64
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

class PairRows : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "pair_rows";
  static constexpr const char* kSummary = "for tests: chosen and rejected answers to a prompt";
  using Options = PairRowsOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("samples", &Options::samples).min(0).doc("number of samples");
    binder.field("vocab_size", &Options::vocab_size).min(2).doc("tokens are below it");
    binder.field("one_token_prompts", &Options::one_token_prompts).doc("prompts of one token");
    binder.field("lonely", &Options::lonely).doc("sample without a rejected answer; -1: none");
    binder.field("has_logps", &Options::has_logps)
        .doc("adds the field kept_logps, -1 at each label, as if computed once by a reference");
  }

  explicit PairRows(const Options& options) : options_(options) {}

  void describe(tenon::DatasetInfo& info) override {
    const tenon::Axis positions("T", kLength);
    input_ids_ = info.field("input_ids", {"B", positions}, TENON_I64);
    labels_ = info.field("labels", {"B", positions}, TENON_I64, -100);
    segments_ = info.field("segment_ids", {"B", positions}, TENON_I64);
    if (options_.has_logps) {
      logps_ = info.field("kept_logps", {"B", positions}, TENON_F32);
    }
  }

  int64_t size(const tenon_window*) override { return options_.samples; }

  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const auto batch = static_cast<int64_t>(n);
    auto* const inputs_BT = writer.add<int64_t>(input_ids_, {batch, kLength});
    auto* const labels_BT = writer.add<int64_t>(labels_, {batch, kLength});
    auto* const segments_BT = writer.add<int64_t>(segments_, {batch, kLength});
    auto* const logps_BT =
        options_.has_logps ? writer.add<float>(logps_, {batch, kLength}) : nullptr;
    std::fill_n(inputs_BT, batch * kLength, 0);
    std::fill_n(labels_BT, batch * kLength, -100);
    std::fill_n(segments_BT, batch * kLength, 2);
    int64_t num_tokens = 0;
    for (size_t b = 0; b < n; ++b) {
      int64_t at = static_cast<int64_t>(b) * kLength;
      const auto add = [&](int64_t side) {
        const std::vector<int64_t> prompt = part(indices[b], 0);
        std::vector<int64_t> tokens = prompt;
        const std::vector<int64_t> answer = part(indices[b], side + 1);
        tokens.insert(tokens.end(), answer.begin(), answer.end());
        for (size_t t = 0; t + 1 < tokens.size(); ++t) {
          inputs_BT[at] = tokens[t];
          segments_BT[at] = side;
          const bool is_lonely = side == 1 && indices[b] == options_.lonely;
          labels_BT[at] = t + 1 >= prompt.size() && !is_lonely ? tokens[t + 1] : -100;
          ++at;
        }
        num_tokens += static_cast<int64_t>(tokens.size()) - 1;
      };
      add(0);
      add(1);
    }
    for (int64_t i = 0; logps_BT != nullptr && i < batch * kLength; ++i) {
      logps_BT[i] = labels_BT[i] == -100 ? 0.0F : -1.0F;
    }
    writer.set_counts(batch, num_tokens);
  }

 private:
  static constexpr int64_t kLength = 20;

  // The tokens of the prompt (0), the chosen (1) or the rejected (2) answer.
  std::vector<int64_t> part(int64_t sample, int64_t which) const {
    const auto key = static_cast<uint64_t>(sample) * 3 + static_cast<uint64_t>(which);
    size_t length = 2 + mixed(key) % (which == 0 ? 4 : 5);
    if (which == 0 && options_.one_token_prompts) {
      length = 1;
    }
    std::vector<int64_t> tokens;
    for (size_t t = 0; t < length; ++t) {
      tokens.push_back(static_cast<int64_t>(mixed(key * 64 + t + 1000003) %
                                            static_cast<uint64_t>(options_.vocab_size)));
    }
    return tokens;
  }

  Options options_;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
  uint32_t segments_ = 0;
  uint32_t logps_ = 0;
};

}  // namespace

TENON_PLUGIN(PairRows)
