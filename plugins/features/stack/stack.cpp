// SPDX-License-Identifier: Apache-2.0
//
// Concatenates columns along the last axis.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../inputs.hpp"

namespace {

class Stack : public tenon::Feature {
 public:
  static constexpr const char* kType = "stack";
  static constexpr const char* kSummary = "concatenates columns along the last axis";

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    TENON_CHECK(!inputs.empty(), "requires at least one column");
    tenon::ColumnType made;
    made.dtype = inputs.front().dtype;
    for (const tenon::ColumnType& type : inputs) {
      TENON_CHECK(
          tenon_features::is_number(type) && type.num_levels == 0 && type.width >= 0,
          "requires numeric columns with a fixed number of entries per sample; pad lists first");
      TENON_CHECK(type.dtype == made.dtype,
                  "requires columns of one type, found ",
                  tenon::dtype_name(made.dtype),
                  " and ",
                  tenon::dtype_name(type.dtype),
                  "; cast them first");
      made.width += type.width == 0 ? 1 : type.width;
    }
    return {made};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const int64_t samples = columns.input(0).num_samples();
    int64_t width = 0;
    for (size_t i = 0; i < columns.num_inputs(); ++i) {
      width += width_of(columns.input(i));
    }
    tenon_features::visit_numbers(columns.input(0), [&](const auto* first) {
      using Value = std::remove_cv_t<std::remove_pointer_t<decltype(first)>>;
      Value* made = columns.output(0).values<Value>({samples, width});
      for (size_t i = 0; i < columns.num_inputs(); ++i) {
        const tenon::Column in = columns.input(i);
        const int64_t own = width_of(in);
        const Value* const values = in.data<Value>();
        for (int64_t sample = 0; sample < samples; ++sample) {
          std::copy_n(values + sample * own, own, made + sample * width);
        }
        made += own;
      }
    });
  }

 private:
  static int64_t width_of(const tenon::Column& in) {
    return in.values().ndim() == 2 ? in.values().size(1) : 1;
  }
};

}  // namespace

TENON_PLUGIN(Stack)
