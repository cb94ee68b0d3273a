// SPDX-License-Identifier: Apache-2.0
//
// A loss, the sum of the squares of `logits`, and a metric, their mean.
#pragma once

#include <tenon/cpp/loss.hpp>
#include <tenon/cpp/metric.hpp>
#include <tenon/cpp/op.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/faults/zoo/breaks_rules/fault.hpp"

namespace {

// The elements one after the other in memory, whatever the strides.
template <class T>
const T* in_memory(const tenon::Host& host, const tenon::TensorRef& tensor) {
  tenon_tensor_info info{};
  info.struct_size = sizeof info;
  host.check(host.tensors().info(tensor.handle(), &info));
  return static_cast<const T*>(info.data);
}

class RuleLoss final : public tenon::Loss {
 public:
  static constexpr const char* kType = "rule_loss";
  static constexpr const char* kSummary = "for tests: a sum of squares; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleLoss(const Options& options) : fault_(options.fault) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_I64)
        .additive_over(TENON_ADDITIVE_SAMPLES)
        .count_from_batch();
  }
  tenon::Tensor count(const tenon::Exec& exec, const tenon::TensorList& inputs) override {
    const tenon::TensorRef labels = inputs[1];
    int64_t count = labels.numel();
    if (fault_ == "views") {
      const auto* const values = in_memory<int64_t>(exec.host(), labels);
      count = std::count_if(values, values + labels.numel(), [](int64_t x) { return x < 100; });
    }
    if (fault_ == "empty_batch") {
      count = std::max<int64_t>(1, count);
    }
    return tenon::Tensor::scalar(
        exec.host(), TENON_F64, {TENON_CPU, 0}, static_cast<double>(count));
  }
  tenon::Tensor compute(const tenon::Exec& exec, const tenon::TensorList& inputs) override {
    const auto squares = tenon::call_op(exec.host(), "aten::mul.Tensor", {inputs[0], inputs[0]});
    return tenon::call_op(exec.host(), "aten::sum", {squares});
  }

 private:
  std::string fault_;
};

class RuleMetric final : public tenon::Metric {
 public:
  static constexpr const char* kType = "rule_metric";
  static constexpr const char* kSummary = "for tests: a mean; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleMetric(const Options& options) : fault_(options.fault) {}

  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT).sum("sums", {2}).metric("mean");
  }
  void update(const tenon::Exec& exec,
              const tenon::TensorList& inputs,
              tenon::MetricStates& states) override {
    const tenon::TensorRef logits = inputs[0];
    const int64_t count = logits.numel();
    const auto wide =
        tenon::call_op(exec.host(), "aten::to.dtype", {logits, tenon::Arg::dtype(TENON_F64)});
    double sum = tenon::call_op(exec.host(), "aten::sum", {wide}).ref().item();
    if (fault_ == "views" && !logits.is_contiguous() && logits.dtype() == TENON_F32) {
      sum = in_memory<float>(exec.host(), logits)[0] * static_cast<double>(count);
    }
    auto* const sums = states[0].mutable_data<double>();
    sums[0] += sum;
    sums[1] += static_cast<double>(fault_ == "empty_batch" ? std::max<int64_t>(1, count) : count);
  }
  std::vector<double> compute(const tenon::Exec&, const tenon::TensorList& states) override {
    const auto* const sums = states[0].data<double>();
    return {sums[1] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[0] / sums[1]};
  }

 private:
  std::string fault_;
};

}  // namespace
