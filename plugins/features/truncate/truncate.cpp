// SPDX-License-Identifier: Apache-2.0
//
// Truncates lists to a maximum length.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "../inputs.hpp"

namespace {

struct TruncateOptions {
  int64_t length = 1;
  std::string keep = "tail";
  bool check_length = false;
};

class Truncate : public tenon::Feature {
 public:
  static constexpr const char* kType = "truncate";
  static constexpr const char* kSummary = "truncates lists to their first or last entries";
  using Options = TruncateOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("length", &Options::length).required().min(0).doc("maximum entries per list");
    binder.field("keep", &Options::keep)
        .choices({"head", "tail"})
        .doc("entries of longer lists to keep: the first (head) or last (tail)");
    binder.field("check_length", &Options::check_length)
        .doc("fail on longer lists instead of truncating them");
  }

  explicit Truncate(const Options& options) : options_(options) {}

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    return {tenon_features::one_of_lists(inputs)};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    const int64_t samples = in.num_samples();
    const int64_t* const offsets = in.offsets(0);
    int64_t longest = 0;
    int64_t total = 0;
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t length = offsets[i + 1] - offsets[i];
      TENON_CHECK(!options_.check_length || length <= options_.length,
                  "sample ",
                  i,
                  " of the batch has ",
                  length,
                  " entries, but `length` is ",
                  options_.length);
      longest = std::max(longest, length);
      total += std::min(length, options_.length);
    }
    if (longest <= options_.length) {
      out.share_values(in);
      out.share_lists(in);
      return;
    }
    int64_t* const cut = out.offsets(0, samples);
    cut[0] = 0;
    tenon_features::visit_numbers(in, [&](const auto* values) {
      using Value = std::remove_cv_t<std::remove_pointer_t<decltype(values)>>;
      copy_kept(values, out.values<Value>({total}), offsets, cut, samples);
    });
    if (in.has_weights()) {
      copy_kept(in.weights().data<float>(), out.weights(total), offsets, cut, samples);
    }
  }

 private:
  template <class T>
  void copy_kept(
      const T* from, T* to, const int64_t* offsets, int64_t* cut, int64_t samples) const {
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t length = std::min(offsets[i + 1] - offsets[i], options_.length);
      const int64_t first = options_.keep == "head" ? offsets[i] : offsets[i + 1] - length;
      std::copy_n(from + first, length, to + cut[i]);
      cut[i + 1] = cut[i] + length;
    }
  }

  TruncateOptions options_;
};

}  // namespace

TENON_PLUGIN(Truncate)
