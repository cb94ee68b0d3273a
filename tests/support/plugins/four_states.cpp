// SPDX-License-Identifier: Apache-2.0
//
// A metric without libtorch that has a state of each reduction over the numbers it is given: their
// sum, the largest, all of them, and the first and last one.
#include <tenon/cpp/metric.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

struct FourStatesOptions {
  bool wrong_rows = false;
  bool train = false;
  tenon::ComponentOption words;
};

class FourStates : public tenon::Metric {
 public:
  static constexpr const char* kType = "four_states";
  static constexpr const char* kSummary = "for tests: a state of each reduction";
  using Options = FourStatesOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("wrong_rows", &Options::wrong_rows).doc("append rows that were not declared");
    binder.field("train", &Options::train).doc("count in training, over each period");
    binder.field("words", &Options::words)
        .component("tokenizer", "null")
        .doc("not used: a component inside the options of a metric");
  }

  explicit FourStates(const Options& options) : options_(options) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("x", {}, TENON_CLASS_FLOAT)
        .sum("total")
        .state("largest", {}, TENON_I64, TENON_REDUCE_MAX, -1e15)
        .state("all", {0}, TENON_F64, TENON_REDUCE_CONCAT)
        .state("ends", {3}, TENON_F64, TENON_REDUCE_OWN)
        .metric("total")
        .metric("largest")
        .metric("number")
        .metric("second")
        .metric("first")
        .metric("last")
        .periods(options_.train ? TENON_PERIOD_STEP | TENON_PERIOD_WINDOW | TENON_PERIOD_RUN : 0);
  }

  void update(const tenon::Exec& exec,
              const tenon::TensorList& inputs,
              tenon::MetricStates& states) override {
    const int64_t size = inputs[0].numel();
    tenon::Tensor rows = tenon::Tensor::empty(
        exec.host(), TENON_F64, {TENON_CPU, -1}, {options_.wrong_rows ? size + 1 : size});
    std::vector<double> x(static_cast<size_t>(size));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = inputs[0].dtype() == TENON_F64 ? inputs[0].data<double>()[i]
                                            : static_cast<double>(inputs[0].data<float>()[i]);
      states[0].mutable_data<double>()[0] += x[i];
      auto* const largest = states[1].mutable_data<int64_t>();
      *largest = std::max(*largest, static_cast<int64_t>(x[i]));
    }
    std::copy(x.begin(), x.end(), rows.ref().mutable_data<double>());
    auto* const ends = states[3].mutable_data<double>();
    if (!x.empty()) {
      ends[1] = ends[0] == 0 ? x.front() : ends[1];
      ends[2] = x.back();
      ends[0] = 1;
    }
    states.append(options_.wrong_rows ? 0 : 2, std::move(rows));
  }

  void merge(const tenon::Exec&,
             tenon::MetricStates& states,
             const tenon::TensorList& others) override {
    auto* const mine = states[3].mutable_data<double>();
    const auto* const next = others[3].data<double>();
    if (next[0] != 0) {
      mine[1] = mine[0] == 0 ? next[1] : mine[1];
      mine[2] = next[2];
      mine[0] = 1;
    }
  }

  std::vector<double> compute(const tenon::Exec&, const tenon::TensorList& states) override {
    const int64_t size = states[2].size(0);
    const auto* const ends = states[3].data<double>();
    return {states[0].data<double>()[0],
            static_cast<double>(states[1].data<int64_t>()[0]),
            static_cast<double>(size),
            size > 1 ? states[2].data<double>()[1] : std::numeric_limits<double>::quiet_NaN(),
            ends[1],
            ends[2]};
  }

  // What is not in `init`: the first and the last of nothing.
  void reset(const tenon::Exec&, tenon::MetricStates& states) override {
    auto* const ends = states[3].mutable_data<double>();
    ends[1] = -1;
    ends[2] = -1;
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(FourStates)
