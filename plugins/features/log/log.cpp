// SPDX-License-Identifier: Apache-2.0
//
// Natural logarithms of dense values.
#include <tenon/cpp/plugin.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../inputs.hpp"

namespace {

struct LogOptions {
  double offset = 1;
  std::string below = "error";
};

class Log : public tenon::Feature {
 public:
  static constexpr const char* kType = "log";
  static constexpr const char* kSummary = "natural logarithms of numbers";
  using Options = LogOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("offset", &Options::offset)
        .min(0)
        .doc("added before taking the logarithm: log(x + offset)");
    binder.field("below", &Options::below)
        .choices({"error", "clip", "signed"})
        .doc(
            "policy for values below 0: fail, treat as 0, or sign(x) * log((|x| + offset) / "
            "offset)");
  }

  explicit Log(const Options& options)
      : offset_(options.offset),
        is_error_(options.below == "error"),
        is_signed_(options.below == "signed") {
    TENON_CHECK(offset_ > 0 || !is_signed_, "`below` \"signed\" requires `offset` above 0");
  }

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    const tenon::ColumnType& type = tenon_features::one_of_numbers(inputs);
    return {tenon_features::with_dtype(type, type.dtype == TENON_F64 ? TENON_F64 : TENON_F32)};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    const std::vector<int64_t> shape = in.values().shape().to_vector();
    if (in.values().dtype() == TENON_F64) {
      write(in, out.values<double>(shape));
    } else {
      write(in, out.values<float>(shape));
    }
    out.share_lists(in);
  }

 private:
  template <class Out>
  void write(const tenon::Column& in, Out* made) const {
    tenon_features::visit_numbers(in, [&](const auto* values) {
      for (int64_t i = 0; i < in.num_values(); ++i) {
        const auto value = static_cast<double>(values[i]);
        TENON_CHECK(!is_error_ || !(value < 0 || (value == 0 && offset_ == 0)),
                    "sample ",
                    tenon_features::sample_of(in, i),
                    " of the batch has the value ",
                    value,
                    ", which has no logarithm; set `below` or `offset`");
        made[i] = static_cast<Out>(log_of(value));
      }
    });
  }

  double log_of(double value) const {
    if (is_signed_) {
      const double size = std::log((std::abs(value) + offset_) / offset_);
      return std::copysign(size, value);
    }
    return std::log((value < 0 ? 0 : value) + offset_);
  }

  double offset_;
  bool is_error_;
  bool is_signed_;
};

}  // namespace

TENON_PLUGIN(Log)
