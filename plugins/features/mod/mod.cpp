// SPDX-License-Identifier: Apache-2.0
//
// Remainders of ids, treated as unsigned.
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <vector>

#include "../inputs.hpp"

namespace {

struct ModOptions {
  int64_t buckets = 1;
};

class Mod : public tenon::Feature {
 public:
  static constexpr const char* kType = "mod";
  static constexpr const char* kSummary = "ids modulo the number of buckets, as unsigned";
  using Options = ModOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("buckets", &Options::buckets)
        .required()
        .min(1)
        .doc("divisor; results are in [0, buckets)");
  }

  explicit Mod(const Options& options) : buckets_(static_cast<uint64_t>(options.buckets)) {}

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    return {tenon_features::one_of_ids(inputs)};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    const auto* const ids = in.data<int64_t>();
    auto* const rest = out.values<int64_t>(in.values().shape().to_vector());
    for (int64_t i = 0; i < in.num_values(); ++i) {
      rest[i] = static_cast<int64_t>(static_cast<uint64_t>(ids[i]) % buckets_);
    }
    out.share_lists(in);
  }

 private:
  uint64_t buckets_;
};

}  // namespace

TENON_PLUGIN(Mod)
