// SPDX-License-Identifier: Apache-2.0
//
// Clamps values to an interval.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "../inputs.hpp"

namespace {

struct ClipOptions {
  std::optional<double> min;
  std::optional<double> max;
};

class Clip : public tenon::Feature {
 public:
  static constexpr const char* kType = "clip";
  static constexpr const char* kSummary = "clamps numbers to an interval";
  using Options = ClipOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("min", &Options::min).doc("lower bound; null: none");
    binder.field("max", &Options::max).doc("upper bound; null: none");
  }

  explicit Clip(const Options& options) : min_(options.min), max_(options.max) {
    TENON_CHECK(min_ || max_, "`min` and `max` are both null; set at least one");
    TENON_CHECK(!min_ || !max_ || *min_ <= *max_, "`min` must not exceed `max`");
  }

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    const tenon::ColumnType& type = tenon_features::one_of_numbers(inputs);
    TENON_CHECK(type.dtype == TENON_F32 || type.dtype == TENON_F64 || type.dtype == TENON_I64,
                "requires a column of f32, f64 or i64; cast others first");
    if (type.dtype == TENON_I64) {
      check_whole(min_, "min");
      check_whole(max_, "max");
    }
    return {type};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    switch (in.values().dtype()) {
      case TENON_F32:
        write<float>(in, out);
        break;
      case TENON_F64:
        write<double>(in, out);
        break;
      default:
        write<int64_t>(in, out);
    }
    out.share_lists(in);
  }

 private:
  static void check_whole(const std::optional<double>& bound, const char* name) {
    constexpr double kMost = 9007199254740992.0;  // integers up to 2^53 are exact
    TENON_CHECK(!bound || (*bound >= -kMost && *bound <= kMost &&
                           *bound == static_cast<double>(static_cast<int64_t>(*bound))),
                "`",
                name,
                "` must be an integer of at most 2^53 for a column of i64");
  }

  // NaN fails all comparisons and stays unchanged.
  template <class T>
  void write(const tenon::Column& in, tenon::ColumnOut& out) const {
    using Limits = std::numeric_limits<T>;
    constexpr bool kIsReal = std::is_floating_point_v<T>;
    const T low = min_ ? static_cast<T>(*min_) : kIsReal ? -Limits::infinity() : Limits::lowest();
    const T high = max_ ? static_cast<T>(*max_) : kIsReal ? Limits::infinity() : Limits::max();
    const T* const values = in.data<T>();
    T* const made = out.values<T>(in.values().shape().to_vector());
    for (int64_t i = 0; i < in.num_values(); ++i) {
      const T raised = values[i] < low ? low : values[i];
      made[i] = raised > high ? high : raised;
    }
  }

  std::optional<double> min_;
  std::optional<double> max_;
};

}  // namespace

TENON_PLUGIN(Clip)
