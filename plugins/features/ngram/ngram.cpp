// SPDX-License-Identifier: Apache-2.0
//
// Hashes of the n-grams that end at each position of a sequence, as ids of tables. Positions before
// the start of a sequence have the token -1, so an n-gram never has tokens of two sequences.
//
// Source: Cheng et al., Conditional Memory via Scalable Lookup (2026), section 2: suffix n-grams
// with several hashes each; Steele et al., Fast Splittable Pseudorandom Number Generators (OOPSLA
// 2014): the mixing function of SplitMix64.
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "../inputs.hpp"

namespace {

constexpr int64_t kMaxOrder = 64;
constexpr int64_t kMaxHeads = 64;
constexpr size_t kMaxOutputs = 64;
constexpr uint64_t kBeforeStart = ~uint64_t{0};  // the token -1

// A bijection of 64-bit numbers.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

struct NgramOptions {
  std::vector<int64_t> n = {2, 3};
  int64_t heads = 1;
  std::optional<int64_t> buckets;
  int64_t seed = 0;
};

class Ngram : public tenon::Feature {
 public:
  static constexpr const char* kType = "ngram";
  static constexpr const char* kSummary = "hashed ids of the n-grams that end at each position";
  using Options = NgramOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("n", &Options::n)
        .min(1)
        .max(static_cast<double>(kMaxOrder))
        .min_items(1)
        .max_items(kMaxOutputs)
        .doc("lengths of the n-grams, each once");
    binder.field("heads", &Options::heads)
        .min(1)
        .max(static_cast<double>(kMaxHeads))
        .doc("hashes of each n-gram; more than one only helps with `buckets`");
    binder.field("buckets", &Options::buckets)
        .min(1)
        .doc("ids are in [0, buckets); null: any 64-bit number, without collisions in practice");
    binder.field("seed", &Options::seed).doc("seed of the hashes");
  }

  explicit Ngram(const Options& options) : options_(options) {
    TENON_CHECK(std::set<int64_t>(options.n.begin(), options.n.end()).size() == options.n.size(),
                "`n` has a length twice");
    TENON_CHECK(num_outputs() <= kMaxOutputs,
                "`n` and `heads` give ",
                num_outputs(),
                " columns (expected at most ",
                kMaxOutputs,
                ")");
    TENON_CHECK(options.heads == 1 || options.buckets.has_value(),
                "`heads` ",
                options.heads,
                " requires `buckets`: without it, the hashes of an n-gram are equally distinct");
  }

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    TENON_CHECK(inputs.size() == 1 || inputs.size() == 2,
                "requires a column of tokens, and optionally a column of segment numbers; found ",
                inputs.size(),
                " columns");
    for (const tenon::ColumnType& type : inputs) {
      TENON_CHECK(type.dtype == TENON_I64 && (type.num_levels > 0 || type.width != 0),
                  "requires sequences of i64: [B, n] or lists");
    }
    TENON_CHECK(inputs.size() == 1 || (inputs[0].num_levels == 0 && inputs[1].num_levels == 0 &&
                                       inputs[0].width == inputs[1].width),
                "requires segment numbers of the shape of the tokens, [B, n]");
    return std::vector<tenon::ColumnType>(num_outputs(), inputs[0]);
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column tokens = columns.input(0);
    const int64_t* segments = nullptr;
    if (columns.num_inputs() == 2) {
      const tenon::Column column = columns.input(1);
      TENON_CHECK(column.values().shape().to_vector() == tokens.values().shape().to_vector(),
                  "the tokens and the segment numbers of a batch differ in shape");
      segments = column.data<int64_t>();
    }
    size_t output = 0;
    for (const int64_t n : options_.n) {
      for (int64_t head = 0; head < options_.heads; ++head) {
        tenon::ColumnOut out = columns.output(output++);
        auto* const ids = out.values<int64_t>(tokens.values().shape().to_vector());
        const uint64_t start =
            mixed(mixed(static_cast<uint64_t>(options_.seed)) ^
                  (static_cast<uint64_t>(n) << 32 | static_cast<uint64_t>(head)));
        visit_sequences(tokens, [&](int64_t begin, int64_t end) {
          hash_sequence(tokens.data<int64_t>(), segments, begin, end, n, start, ids);
        });
        out.share_lists(tokens);
      }
    }
  }

 private:
  size_t num_outputs() const { return options_.n.size() * static_cast<size_t>(options_.heads); }

  // Calls body(begin, end) with the entries of each sequence: a row, or an innermost list.
  template <class Body>
  static void visit_sequences(const tenon::Column& tokens, Body&& body) {
    const size_t levels = tokens.num_levels();
    if (levels > 0) {
      const int64_t* const offsets = tokens.offsets(levels - 1);
      for (int64_t i = 0; i < tokens.num_pieces(levels - 1); ++i) {
        body(offsets[i], offsets[i + 1]);
      }
      return;
    }
    const int64_t width = tokens.values().size(1);
    for (int64_t row = 0; row < tokens.num_samples(); ++row) {
      body(row * width, (row + 1) * width);
    }
  }

  // Writes the ids of positions [begin, end). A segment is a run of equal numbers.
  void hash_sequence(const int64_t* tokens,
                     const int64_t* segments,
                     int64_t begin,
                     int64_t end,
                     int64_t n,
                     uint64_t start,
                     int64_t* ids) const {
    int64_t first = begin;  // of the segment
    for (int64_t t = begin; t < end; ++t) {
      if (segments != nullptr && t > begin && segments[t] != segments[t - 1]) {
        first = t;
      }
      uint64_t hash = start;
      for (int64_t i = t - n + 1; i <= t; ++i) {
        hash = mixed(hash ^ (i < first ? kBeforeStart : static_cast<uint64_t>(tokens[i])));
      }
      ids[t] = static_cast<int64_t>(
          options_.buckets ? hash % static_cast<uint64_t>(*options_.buckets) : hash);
    }
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Ngram)
