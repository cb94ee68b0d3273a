// SPDX-License-Identifier: Apache-2.0
//
// Maps each value to the number of boundaries at or below it, as torch.bucketize and numpy.digitize
// do.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "../inputs.hpp"

namespace {

struct BucketizeOptions {
  std::vector<double> boundaries;
};

class Bucketize : public tenon::Feature {
 public:
  static constexpr const char* kType = "bucketize";
  static constexpr const char* kSummary = "maps numbers to bucket indices";
  using Options = BucketizeOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("boundaries", &Options::boundaries)
        .required()
        .min_items(1)
        .doc("increasing boundaries; a value becomes the number of boundaries at or below it");
  }

  explicit Bucketize(const Options& options) : boundaries_(options.boundaries) {
    TENON_CHECK(
        std::adjacent_find(boundaries_.begin(), boundaries_.end(), std::greater_equal<>()) ==
            boundaries_.end(),
        "`boundaries` must be strictly increasing");
  }

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    return {tenon_features::with_dtype(tenon_features::one_of_numbers(inputs), TENON_I64)};
  }

  // A few boundaries are counted without a branch, so that the compiler vectorizes the loop. NaN is
  // sorted after all numbers: it gets the last bucket.
  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    constexpr size_t kFew = 32;
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    auto* const buckets = out.values<int64_t>(in.values().shape().to_vector());
    tenon_features::visit_numbers(in, [&](const auto* values) {
      for (int64_t i = 0; i < in.num_values(); ++i) {
        const auto value = static_cast<double>(values[i]);
        if (boundaries_.size() <= kFew) {
          int64_t reached = 0;
          for (const double boundary : boundaries_) {
            reached += value < boundary ? 0 : 1;  // 1 for NaN
          }
          buckets[i] = reached;
        } else if (value != value) {
          buckets[i] = static_cast<int64_t>(boundaries_.size());
        } else {
          buckets[i] =
              std::upper_bound(boundaries_.begin(), boundaries_.end(), value) - boundaries_.begin();
        }
      }
    });
    out.share_lists(in);
  }

 private:
  std::vector<double> boundaries_;
};

}  // namespace

TENON_PLUGIN(Bucketize)
