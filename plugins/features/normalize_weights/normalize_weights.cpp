// SPDX-License-Identifier: Apache-2.0
//
// Divides the weights of each sample by their sum.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "../inputs.hpp"

namespace {

class NormalizeWeights : public tenon::Feature {
 public:
  static constexpr const char* kType = "normalize_weights";
  static constexpr const char* kSummary = "divides weights by their sum";

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    const tenon::ColumnType& type = tenon_features::one_input(inputs);
    TENON_CHECK(type.num_lists() == 1 && type.has_weights,
                "requires a column of lists with weights, with one level");
    return {type};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    const int64_t* const offsets = in.offsets(0);
    const auto* const weights = in.weights().data<float>();
    float* const made = out.weights(in.weights().numel());
    for (int64_t i = 0; i < in.num_samples(); ++i) {
      const float* const first = weights + offsets[i];
      const float* const last = weights + offsets[i + 1];
      const double sum = std::accumulate(first, last, 0.0);
      const bool is_zero = std::all_of(first, last, [](float weight) { return weight == 0; });
      TENON_CHECK((sum != 0 || is_zero) && std::isfinite(sum),
                  "sample ",
                  i,
                  " of the batch has weights whose sum is ",
                  sum);
      std::transform(first, last, made + offsets[i], [&](float weight) {
        return is_zero ? 0.0F : static_cast<float>(weight / sum);
      });
    }
    for (size_t level = 0; level < in.num_levels(); ++level) {
      out.share_offsets(level, in);
    }
    out.share_values(in);
  }
};

}  // namespace

TENON_PLUGIN(NormalizeWeights)
