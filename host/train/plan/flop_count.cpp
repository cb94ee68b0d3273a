// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/flop_count.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <memory>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

// Returns the counter of the object that counts on this thread; null if none does.
double*& counting() {
  thread_local double* flops = nullptr;
  return flops;
}

using Inputs = c10::ArrayRef<const c10::IValue>;

double of_convolution(Inputs inputs) {
  const at::Tensor input = inputs[0].toTensor();
  const at::Tensor weight = inputs[1].toTensor();
  const bool is_transposed = inputs[6].toBool();
  const auto stride = inputs[3].toIntVector();
  const auto padding = inputs[4].toIntVector();
  const auto dilation = inputs[5].toIntVector();
  double positions = static_cast<double>(input.size(0));
  for (int64_t d = 2; d < input.dim(); ++d) {
    const auto i = static_cast<size_t>(d - 2);
    const int64_t reach = dilation[i % dilation.size()] * (weight.size(d) - 1) + 1;
    positions *= static_cast<double>(
        is_transposed ? input.size(d)
                      : (input.size(d) + 2 * padding[i % padding.size()] - reach) /
                                stride[i % stride.size()] +
                            1);
  }
  return 2.0 * positions * static_cast<double>(weight.numel());
}

double flops_of(const at::RecordFunction& f) {
  const Inputs inputs = f.inputs();
  const std::string_view name = f.name();
  const auto tensor = [&inputs](size_t i) { return inputs[i].toTensor(); };
  const auto product = [](const at::Tensor& a, const at::Tensor& b) {
    return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
  };
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::mv") {
    return inputs.size() < 2    ? 0.0
           : name == "aten::mv" ? 2.0 * static_cast<double>(tensor(0).numel())
                                : product(tensor(0), tensor(1));
  }
  if (name == "aten::addmm" || name == "aten::baddbmm") {
    return inputs.size() < 3 ? 0.0 : product(tensor(1), tensor(2));
  }
  if (name == "aten::convolution" && inputs.size() >= 9) {
    return of_convolution(inputs);
  }
  if (name == "aten::convolution_backward" && inputs.size() >= 10) {
    // Gradients of input and weight: each takes as many operations as forward.
    const double by_weight = static_cast<double>(tensor(2).numel()) / tensor(2).size(0);
    return 2.0 * 2.0 * static_cast<double>(tensor(0).numel()) * by_weight;
  }
  return 0.0;
}

at::RecordFunctionCallback callback() {
  return at::RecordFunctionCallback(
             [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
               if (counting() != nullptr) {
                 *counting() += flops_of(f);
               }
               return nullptr;
             })
      .needsInputs(true)
      .scopes({at::RecordScope::FUNCTION});
}

}  // namespace

FlopCount::FlopCount() : handle_(at::addThreadLocalCallback(callback())) {
  counting() = &flops_;
}

FlopCount::~FlopCount() {
  counting() = nullptr;
  at::removeCallback(handle_);
}

double FlopCount::take() {
  return std::exchange(flops_, 0.0);
}

}  // namespace tenon
