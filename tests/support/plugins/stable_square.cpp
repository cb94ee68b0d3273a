// SPDX-License-Identifier: Apache-2.0
//
// Squared error on libtorch's stable ABI, with its own kernels for the sum and for the gradient.
// One binary runs with all libtorch releases from 2.11 on.
//
// Shapes   logits and targets of one shape, floating-point, on the CPU
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch_stable/loss.hpp>

#include <torch/csrc/stable/ops.h>

#include <cstdint>
#include <vector>

namespace {

namespace stable = torch::stable;
using torch::headeronly::ScalarType;

class StableSquare final : public tenon::HandWrittenStableTorchLoss {
 public:
  static constexpr const char* kType = "stable_square";
  static constexpr const char* kSummary = "squared error with its own kernels";

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("targets", {}, TENON_CLASS_FLOAT)
        .count_from_batch();
  }

  stable::Tensor count(const tenon::Exec&, const tenon::StableInputs& inputs) override {
    return scalar(static_cast<double>(inputs[kTargets].numel()), ScalarType::Double);
  }

  stable::Tensor compute(const tenon::Exec&, const tenon::StableInputs& inputs) override {
    const stable::Tensor x = doubles(inputs[kLogits]);
    const stable::Tensor y = doubles(inputs[kTargets]);
    TENON_CHECK(x.numel() == y.numel(), "logits and targets differ in size");
    const double* const from_x = x.const_data_ptr<double>();
    const double* const from_y = y.const_data_ptr<double>();
    double sum = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      sum += (from_x[i] - from_y[i]) * (from_x[i] - from_y[i]);
    }
    const bool is_double = inputs[kLogits].scalar_type() == ScalarType::Double;
    return scalar(sum, is_double ? ScalarType::Double : ScalarType::Float);
  }

  std::vector<stable::Tensor> backward(const tenon::Exec& exec,
                                       const tenon::StableInputs& inputs,
                                       const stable::Tensor& grad_sum) override {
    const stable::Tensor x = doubles(inputs[kLogits]);
    const stable::Tensor y = doubles(inputs[kTargets]);
    stable::Tensor grad = stable::empty_like(x);
    const double twice = 2 * tenon::TensorRef(exec.host(), tenon::borrow(grad_sum)).item();
    const double* const from_x = x.const_data_ptr<double>();
    const double* const from_y = y.const_data_ptr<double>();
    double* const to = grad.mutable_data_ptr<double>();
    constexpr int64_t kGrain = 4096;
    stable::parallel_for(0, x.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = twice * (from_x[i] - from_y[i]);
      }
    });
    return {stable::to(grad, inputs[kLogits].scalar_type()), stable::Tensor()};
  }

 private:
  enum Port : size_t { kLogits, kTargets };

  static stable::Tensor scalar(double value, ScalarType dtype) {
    return stable::full({}, value, dtype);
  }
  static stable::Tensor doubles(const stable::Tensor& tensor) {
    TENON_CHECK(tensor.is_cpu(), "the tensor is not on the CPU");
    return stable::contiguous(stable::to(tensor, ScalarType::Double));
  }
};

}  // namespace

TENON_PLUGIN(StableSquare)
