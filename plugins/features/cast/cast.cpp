// SPDX-License-Identifier: Apache-2.0
//
// Converts numbers to another type.
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "../inputs.hpp"

namespace {

struct CastOptions {
  std::string dtype = "i64";
};

class Cast : public tenon::Feature {
 public:
  static constexpr const char* kType = "cast";
  static constexpr const char* kSummary = "converts numbers to another type";
  using Options = CastOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("dtype", &Options::dtype)
        .required()
        .choices({"i64", "f32", "f64"})
        .doc("target type; conversion to i64 truncates fractions");
  }

  explicit Cast(const Options& options)
      : dtype_(options.dtype == "i64"   ? TENON_I64
               : options.dtype == "f32" ? TENON_F32
                                        : TENON_F64) {}

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    return {tenon_features::with_dtype(tenon_features::one_of_numbers(inputs), dtype_)};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    switch (dtype_) {
      case TENON_I64:
        write<int64_t>(in, out);
        break;
      case TENON_F32:
        write<float>(in, out);
        break;
      default:
        write<double>(in, out);
    }
    out.share_lists(in);
  }

 private:
  static bool is_exact(int64_t value) {
    constexpr int64_t kEnd = int64_t{1} << 53;
    return (value >= -kEnd && value <= kEnd) ||
           static_cast<__int128>(static_cast<double>(value)) == value;
  }

  template <class Out>
  static void write(const tenon::Column& in, tenon::ColumnOut& out) {
    Out* const made = out.values<Out>(in.values().shape().to_vector());
    tenon_features::visit_numbers(in, [&](const auto* values) {
      using Value = std::remove_cv_t<std::remove_pointer_t<decltype(values)>>;
      for (int64_t i = 0; i < in.num_values(); ++i) {
        if constexpr (std::is_floating_point_v<Value> && std::is_integral_v<Out>) {
          // Below this limit, neighboring numbers are at most 1 apart. A larger integer may have
          // been rounded, and would be another id.
          constexpr double kEnd = std::is_same_v<Value, float> ? 0x1p24 : 0x1p53;
          const auto value = static_cast<double>(values[i]);
          TENON_CHECK(value > -kEnd && value < kEnd,  // false for NaN
                      "sample ",
                      tenon_features::sample_of(in, i),
                      " of the batch has the value ",
                      value,
                      ", which is not exact as ",
                      std::is_same_v<Value, float> ? "f32" : "f64",
                      " and cannot become i64; read the column as ids");
        } else if constexpr (std::is_same_v<Value, int64_t> && std::is_same_v<Out, double>) {
          TENON_CHECK(is_exact(values[i]),
                      "sample ",
                      tenon_features::sample_of(in, i),
                      " of the batch has the value ",
                      values[i],
                      ", which f64 rounds");
        }
        made[i] = static_cast<Out>(values[i]);
      }
    });
  }

  uint32_t dtype_;
};

}  // namespace

TENON_PLUGIN(Cast)
