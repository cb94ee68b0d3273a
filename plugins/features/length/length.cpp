// SPDX-License-Identifier: Apache-2.0
//
// The number of entries of each list.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "../inputs.hpp"

namespace {

struct LengthOptions {
  std::string dtype = "i64";
  std::optional<int64_t> max;
};

class Length : public tenon::Feature {
 public:
  static constexpr const char* kType = "length";
  static constexpr const char* kSummary = "lengths of lists";
  using Options = LengthOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("dtype", &Options::dtype).choices({"i64", "f32"}).doc("type of the lengths");
    binder.field("max", &Options::max)
        .min(0)
        .doc("upper bound of the lengths, for lists truncated elsewhere; null: none");
  }

  explicit Length(const Options& options)
      : is_real_(options.dtype == "f32"),
        max_(options.max.value_or(std::numeric_limits<int64_t>::max())) {}

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    const tenon::ColumnType& type = tenon_features::one_input(inputs);
    TENON_CHECK(type.num_lists() == 1, "requires a column of lists with one level");
    tenon::ColumnType made;
    made.dtype = is_real_ ? TENON_F32 : TENON_I64;
    return {made};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    if (is_real_) {
      write(in, out.values<float>({in.num_samples()}));
    } else {
      write(in, out.values<int64_t>({in.num_samples()}));
    }
  }

 private:
  template <class T>
  void write(const tenon::Column& in, T* lengths) const {
    const int64_t* const offsets = in.offsets(0);
    for (int64_t i = 0; i < in.num_samples(); ++i) {
      lengths[i] = static_cast<T>(std::min(offsets[i + 1] - offsets[i], max_));
    }
  }

  bool is_real_;
  int64_t max_;
};

}  // namespace

TENON_PLUGIN(Length)
