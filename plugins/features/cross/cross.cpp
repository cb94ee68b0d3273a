// SPDX-License-Identifier: Apache-2.0
//
// Cross feature: per sample, one id for each pair of ids of two columns.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../byte_hash.hpp"
#include "../inputs.hpp"

namespace {

struct Entry {
  int64_t id;
  float weight;
};

// The ids of a column per sample, with their weights.
class Rows {
 public:
  explicit Rows(const tenon::Column& column)
      : ids_(column.data<int64_t>()),
        weights_(column.has_weights() ? column.weights().data<float>() : nullptr),
        offsets_(column.num_levels() > 0 ? column.offsets(0) : nullptr),
        width_(column.num_levels() == 0 && column.values().ndim() == 2 ? column.values().size(1)
                                                                       : 1) {}

  // The sample's distinct ids, sorted. Duplicates keep the first weight.
  void read(int64_t sample, std::vector<Entry>& out) const {
    out.clear();
    const int64_t begin = offsets_ != nullptr ? offsets_[sample] : sample * width_;
    const int64_t end = offsets_ != nullptr ? offsets_[sample + 1] : begin + width_;
    for (int64_t i = begin; i < end; ++i) {
      out.push_back({ids_[i], weights_ != nullptr ? weights_[i] : 1.0F});
    }
    if (out.size() > 1) {
      std::stable_sort(
          out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
      out.erase(
          std::unique(
              out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.id == b.id; }),
          out.end());
    }
  }

 private:
  const int64_t* ids_;
  const float* weights_;
  const int64_t* offsets_;
  int64_t width_;
};

class Cross : public tenon::Feature {
 public:
  static constexpr const char* kType = "cross";
  static constexpr const char* kSummary = "crosses two id columns: one id per pair";

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    TENON_CHECK(inputs.size() == 2, "requires two columns, found ", inputs.size());
    bool is_single = true;
    tenon::ColumnType made;
    for (const tenon::ColumnType& type : inputs) {
      TENON_CHECK(type.dtype == TENON_I64 && type.num_levels <= 1,
                  "requires i64 columns with at most one level of lists; hash text first");
      is_single = is_single && type.num_levels == 0 && type.width == 0;
      made.has_weights = made.has_weights || type.has_weights;
    }
    made.num_levels = is_single ? 0 : 1;
    return {made};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column left = columns.input(0);
    const tenon::Column right = columns.input(1);
    const Rows left_rows(left);
    const Rows right_rows(right);
    const int64_t samples = left.num_samples();
    const bool has_weights = left.has_weights() || right.has_weights();
    std::vector<int64_t> offsets = {0};
    std::vector<int64_t> pairs;
    std::vector<float> weights;
    std::vector<Entry> a;
    std::vector<Entry> b;
    for (int64_t sample = 0; sample < samples; ++sample) {
      left_rows.read(sample, a);
      right_rows.read(sample, b);
      for (const Entry& x : a) {
        for (const Entry& y : b) {
          pairs.push_back(pair_of(x.id, y.id));
          if (has_weights) {
            weights.push_back(x.weight * y.weight);
          }
        }
      }
      offsets.push_back(static_cast<int64_t>(pairs.size()));
    }
    tenon::ColumnOut out = columns.output(0);
    copy(pairs, out.values<int64_t>({static_cast<int64_t>(pairs.size())}));
    if (left.num_levels() + right.num_levels() > 0 || left.values().ndim() == 2 ||
        right.values().ndim() == 2) {
      copy(offsets, out.offsets(0, samples));
    }
    if (has_weights) {
      copy(weights, out.weights(static_cast<int64_t>(weights.size())));
    }
  }

 private:
  static int64_t pair_of(int64_t x, int64_t y) {
    uint8_t bytes[16];
    std::memcpy(bytes, &x, 8);
    std::memcpy(bytes + 8, &y, 8);
    return static_cast<int64_t>(tenon_features::murmur64_hash(bytes, sizeof(bytes)));
  }

  template <class T>
  static void copy(const std::vector<T>& from, T* to) {
    std::copy(from.begin(), from.end(), to);
  }
};

}  // namespace

TENON_PLUGIN(Cross)
