// SPDX-License-Identifier: Apache-2.0
//
// Converts lists to rows of a fixed width: truncates longer lists and pads shorter ones.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "../inputs.hpp"

namespace {

struct PadOptions {
  int64_t length = 1;
  double value = 0;
  std::string keep = "tail";
  std::string side = "tail";
};

// Whether an integer column can hold the value. For i64: values exactly representable in f64.
bool is_small_and_whole(uint32_t dtype, double value) {
  const bool is_unsigned = dtype == TENON_U8 || dtype == TENON_BOOL;
  const double most = dtype == TENON_BOOL  ? 1
                      : dtype == TENON_U8  ? 255
                      : dtype == TENON_I8  ? 127
                      : dtype == TENON_I16 ? 32767
                      : dtype == TENON_I32 ? 2147483647
                                           : 9007199254740992.0;
  return value == std::floor(value) && value <= most && value >= (is_unsigned ? 0 : -most);
}

class Pad : public tenon::Feature {
 public:
  static constexpr const char* kType = "pad";
  static constexpr const char* kSummary = "pads or truncates lists to a fixed width";
  using Options = PadOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("length", &Options::length)
        .required()
        .min(1)
        .max(int64_t{1} << 24)
        .doc("entries per sample");
    binder.field("value", &Options::value).doc("padding value");
    binder.field("keep", &Options::keep)
        .choices({"head", "tail"})
        .doc("entries of longer lists to keep: the first (head) or last (tail)");
    binder.field("side", &Options::side)
        .choices({"head", "tail"})
        .doc("padding position: before (head) or after (tail) the entries");
  }

  explicit Pad(const Options& options) : options_(options) {}

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    const tenon::ColumnType& type = tenon_features::one_of_lists(inputs);
    const bool is_real = type.dtype == TENON_F32 || type.dtype == TENON_F64;
    TENON_CHECK(is_real || is_small_and_whole(type.dtype, options_.value),
                "`value` is ",
                options_.value,
                ", which does not fit ",
                tenon::dtype_name(type.dtype));
    TENON_CHECK(!type.has_weights,
                "requires lists without weights; padded rows cannot have weights");
    tenon::ColumnType made;
    made.dtype = type.dtype;
    made.width = options_.length;
    return {made};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    const int64_t samples = in.num_samples();
    const int64_t width = options_.length;
    const int64_t* const offsets = in.offsets(0);
    tenon_features::visit_numbers(in, [&](const auto* values) {
      using Value = std::remove_cv_t<std::remove_pointer_t<decltype(values)>>;
      auto* row = out.values<Value>({samples, width});
      for (int64_t i = 0; i < samples; ++i, row += width) {
        const int64_t length = std::min(offsets[i + 1] - offsets[i], width);
        const int64_t first = options_.keep == "head" ? offsets[i] : offsets[i + 1] - length;
        const int64_t filled = options_.side == "head" ? width - length : 0;
        std::fill_n(row, width, static_cast<Value>(options_.value));
        std::copy_n(values + first, length, row + filled);
      }
    });
  }

 private:
  PadOptions options_;
};

}  // namespace

TENON_PLUGIN(Pad)
