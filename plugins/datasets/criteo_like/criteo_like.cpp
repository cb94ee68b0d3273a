// SPDX-License-Identifier: Apache-2.0
//
// Synthetic clicks in the shape of the Criteo dataset: id columns with power-law distributions,
// dense features, and labels drawn from a logistic model. The model is known, so the best possible
// metric values are known too.
//
//     logit = bias + id_scale sum_f u(id_f) + pair_scale sum_k v(id_2k) v(id_2k+1)
//             + number_scale <w, x>
//
// u and v of an id are uniform in [-1, 1), w and x are normal. u, v and w are hashes. Ids are drawn
// by rank, through the inverse CDF of a power law with density r^-a on [1, n + 1).
//
// Invariant: a sample is a pure function of seed, sample index and options.
// Threads: reads share no mutable state.
//
// Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (2014), for the hash;
// Box, Muller (1958), for normal numbers.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

enum class Layout { kColumns, kWide };

struct CriteoOptions {
  int64_t samples = 1000000;
  int64_t first = 0;
  int64_t seed = 1;
  int64_t categorical = 26;
  int64_t dense = 13;
  int64_t num_ids = 10000000;
  std::vector<double> exponents = {1.05, 1.2};
  Layout layout = Layout::kColumns;
  double bias = -1.0;
  double id_scale = 0.6;
  double pair_scale = 1.0;
  double number_scale = 0.3;
  std::optional<int64_t> window_size;
  double drift = 0.0;
};

constexpr double kPi = 3.14159265358979323846;

// SplitMix64's output function: decorrelates neighboring inputs.
uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}
// In [0, 1).
double unit(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}
// In [-1, 1).
double signed_unit(uint64_t bits) {
  return unit(bits) * 2.0 - 1.0;
}
double normal(uint64_t bits) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(bits)));
  return radius * std::cos(2.0 * kPi * unit(mix(bits)));
}

class CriteoLike : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "criteo_like";
  static constexpr const char* kSummary =
      "synthetic clicks with power-law ids and known true logits";
  using Options = CriteoOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("samples", &Options::samples).min(1).max(kMost).doc("number of samples");
    binder.field("first", &Options::first)
        .min(0)
        .max(kMost)
        .doc("index of the first sample; another range gives evaluation data from the same model");
    binder.field("seed", &Options::seed).min(0).doc("random seed of samples and true model");
    binder.field("categorical", &Options::categorical).min(1).max(4096).doc("number of id columns");
    binder.field("dense", &Options::dense).min(0).max(4096).doc("number of dense features");
    binder.field("num_ids", &Options::num_ids)
        .min(1)
        .max(1099511627776.0)
        .doc("distinct ids per column at any one time");
    binder.field("exponents", &Options::exponents)
        .min(0)
        .min_items(2)
        .doc("power-law exponents of the first and last column; evenly spaced between");
    binder
        .choice(
            "layout", &Options::layout, {{"columns", Layout::kColumns}, {"wide", Layout::kWide}})
        .doc("columns: fields c0, c1, ... [B]; wide: one field `categorical` [B, columns]");
    binder.field("bias", &Options::bias).doc("bias of the true logit");
    binder.field("id_scale", &Options::id_scale)
        .doc("largest contribution of one id to the true logit");
    binder.field("pair_scale", &Options::pair_scale)
        .doc("largest contribution of the product of columns 2k and 2k + 1");
    binder.field("number_scale", &Options::number_scale)
        .doc("standard deviation of the weights of dense features");
    binder.field("window_size", &Options::window_size)
        .min(1)
        .doc("samples per window; null: no windows");
    binder.field("drift", &Options::drift)
        .min(0)
        .max(1)
        .doc("fraction of ids that each window replaces with unseen ones; requires `window_size`");
  }

  explicit CriteoLike(Options options) : o_(std::move(options)) {
    TENON_CHECK(o_.exponents.size() == 2,
                "`exponents` has ",
                o_.exponents.size(),
                " numbers (expected 2: one for the first column and one for the last)");
    if (o_.drift > 0 && !o_.window_size) {
      fail_windows("`drift` requires `window_size`");
    }
    if (o_.window_size && (o_.first % *o_.window_size != 0 || o_.samples % *o_.window_size != 0)) {
      fail_windows("`first` and `samples` must be multiples of `window_size`");
    }
    for (int64_t f = 0; f < o_.categorical; ++f) {
      const double share = o_.categorical == 1
                               ? 0.0
                               : static_cast<double>(f) / static_cast<double>(o_.categorical - 1);
      const double a = o_.exponents[0] + share * (o_.exponents[1] - o_.exponents[0]);
      // At exponent 1 the integral is a logarithm; a value close to 1 gives the same result.
      const double power = std::abs(1.0 - a) < 1e-9 ? 1e-9 : 1.0 - a;
      laws_.push_back({std::pow(static_cast<double>(o_.num_ids) + 1.0, power) - 1.0, 1.0 / power});
    }
    for (int64_t k = 0; k < o_.dense; ++k) {
      weights_.push_back(o_.number_scale * normal(draw(kWeight, static_cast<uint64_t>(k), 0)));
    }
  }

  void describe(tenon::DatasetInfo& info) override {
    if (o_.layout == Layout::kWide) {
      info.field("categorical", {"B", tenon::Axis(o_.categorical)}, TENON_I64);
    } else {
      for (int64_t f = 0; f < o_.categorical; ++f) {
        info.field("c" + std::to_string(f), {"B"}, TENON_I64);
      }
    }
    if (o_.dense > 0) {
      dense_field_ = info.field("dense", {"B", tenon::Axis(o_.dense)}, TENON_F32);
    }
    label_field_ = info.field("label", {"B"}, TENON_F32);
    truth_field_ = info.field("truth", {"B"}, TENON_F32);
    if (o_.window_size) {
      info.windows();
    }
  }

  int64_t size(const tenon_window* window) override {
    return window == nullptr ? o_.samples : *o_.window_size;
  }
  bool next_window(tenon::Window& out) override {
    if (next_window_ * *o_.window_size >= o_.samples) {
      return false;
    }
    out.id = static_cast<uint64_t>(o_.first / *o_.window_size + next_window_++);
    out.label = std::to_string(out.id);
    out.size = *o_.window_size;
    return true;
  }
  void reset(uint64_t) override { next_window_ = 0; }

  void read(const tenon_window* window,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const int64_t num_samples = size(window);
    const int64_t first =
        window == nullptr ? o_.first : static_cast<int64_t>(window->id) * *o_.window_size;
    const auto batch = static_cast<int64_t>(n);
    const auto num_columns = static_cast<size_t>(o_.categorical);
    const auto num_numbers = static_cast<size_t>(o_.dense);
    std::vector<int64_t*> columns(num_columns);
    size_t step = 1;
    if (o_.layout == Layout::kWide) {
      auto* ids = writer.add<int64_t>(0, {batch, o_.categorical});
      step = num_columns;
      for (size_t f = 0; f < num_columns; ++f) {
        columns[f] = ids + f;
      }
    } else {
      for (size_t f = 0; f < num_columns; ++f) {
        columns[f] = writer.add<int64_t>(static_cast<uint32_t>(f), {batch});
      }
    }
    float* numbers =
        num_numbers == 0 ? nullptr : writer.add<float>(dense_field_, {batch, o_.dense});
    auto* label = writer.add<float>(label_field_, {batch});
    auto* truth = writer.add<float>(truth_field_, {batch});
    for (size_t b = 0; b < n; ++b) {
      TENON_CHECK(0 <= indices[b] && indices[b] < num_samples,
                  "sample ",
                  indices[b],
                  " is out of range [0, ",
                  num_samples,
                  ")");
      const auto sample = static_cast<uint64_t>(first + indices[b]);
      double logit = o_.bias;
      double other = 0.0;  // v of the even column of a pair
      for (size_t f = 0; f < num_columns; ++f) {
        const uint64_t id = id_of(sample, f);
        columns[f][b * step] = static_cast<int64_t>(id);
        const uint64_t traits = mix(id ^ kTraits);
        logit += o_.id_scale * signed_unit(traits);
        const double second = signed_unit(mix(traits));
        if (f % 2 == 1) {
          logit += o_.pair_scale * other * second;
        }
        other = second;
      }
      for (size_t k = 0; k < num_numbers; ++k) {
        const double number = normal(draw(kNumber, sample, k));
        numbers[b * num_numbers + k] = static_cast<float>(number);
        logit += weights_[k] * number;
      }
      truth[b] = static_cast<float>(logit);
      label[b] = unit(draw(kLabel, sample, 0)) < 1.0 / (1.0 + std::exp(-logit)) ? 1.0F : 0.0F;
    }
    writer.set_counts(batch, 0);
  }

 private:
  static constexpr double kMost = 1e15;
  // Purpose of a random draw; keeps draws independent.
  enum Purpose : uint64_t { kRank = 1, kNumber, kLabel, kWeight, kName, kPhase };
  static constexpr uint64_t kTraits = 0x7261697473000000ULL;

  struct PowerLaw {
    double span;
    double power;
  };

  [[noreturn]] static void fail_windows(const char* what) {
    TENON_FAIL(TENON_INVALID, "criteo_like.windows", what);
  }

  uint64_t draw(Purpose purpose, uint64_t a, uint64_t b) const {
    return mix(mix(mix(static_cast<uint64_t>(o_.seed) ^ (purpose << 56)) ^ a) + b);
  }

  // 63-bit id of a rank. With drift, ids of ranks change over time: each window renames a fraction
  // `drift` of all ranks.
  uint64_t id_of(uint64_t sample, size_t column) const {
    const PowerLaw& law = laws_[column];
    const double u = unit(draw(kRank, sample, column));
    const double value = std::pow(1.0 + u * law.span, law.power);
    const auto rank =
        static_cast<uint64_t>(std::clamp(std::floor(value), 1.0, static_cast<double>(o_.num_ids)));
    uint64_t generation = 0;
    if (o_.drift > 0) {
      const auto window = static_cast<double>(sample / static_cast<uint64_t>(*o_.window_size));
      generation = static_cast<uint64_t>(window * o_.drift + unit(draw(kPhase, rank, column)));
    }
    return draw(kName, rank, column * (uint64_t{1} << 40) + generation) >> 1;
  }

  Options o_;
  std::vector<PowerLaw> laws_;   // per column
  std::vector<double> weights_;  // per dense feature
  uint32_t dense_field_ = 0;
  uint32_t label_field_ = 0;
  uint32_t truth_field_ = 0;
  int64_t next_window_ = 0;
};

}  // namespace

TENON_PLUGIN(CriteoLike)
