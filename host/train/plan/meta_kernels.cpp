// SPDX-License-Identifier: Apache-2.0
//
// Letters in comments: N samples, C channels.
#include "host/train/plan/meta_kernels.hpp"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace tenon {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Sizes = at::IntArrayRef;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;
using WantedGradients = std::array<bool, 3>;

Tensor like_if(bool is_wanted, const Tensor& tensor) {
  return is_wanted ? at::empty_like(tensor) : Tensor();
}

// Returns a tensor of [C], in the dtype of the weight if there is one.
Tensor of_channels(const Tensor& input, const MaybeTensor& weight, int64_t channels) {
  const bool has_weight = weight.has_value() && weight->defined();
  return at::empty({channels}, has_weight ? weight->options() : input.options());
}

// Returns the gradients of a normalization by input, weight and bias.
ThreeTensors normalization_gradients(const Tensor& input,
                                     const MaybeTensor& weight,
                                     int64_t channels,
                                     const WantedGradients& wanted) {
  const auto by_channel = [&](bool is_wanted) {
    return is_wanted ? of_channels(input, weight, channels) : Tensor();
  };
  return {like_if(wanted[0], input), by_channel(wanted[1]), by_channel(wanted[2])};
}

ThreeTensors batch_norm(const Tensor& input,
                        const MaybeTensor& weight,
                        const MaybeTensor& /*bias*/,
                        const MaybeTensor& /*running_mean*/,
                        const MaybeTensor& /*running_var*/,
                        bool is_training,
                        double /*momentum*/,
                        double /*eps*/) {
  const int64_t num_statistics = is_training ? input.size(1) : 0;
  return {at::empty_like(input),
          of_channels(input, weight, num_statistics),
          of_channels(input, weight, num_statistics)};
}

ThreeTensors batch_norm_backward(const Tensor& /*grad*/,
                                 const Tensor& input,
                                 const MaybeTensor& weight,
                                 const MaybeTensor& /*running_mean*/,
                                 const MaybeTensor& /*running_var*/,
                                 const MaybeTensor& /*mean*/,
                                 const MaybeTensor& /*inverse_deviation*/,
                                 bool /*is_training*/,
                                 double /*eps*/,
                                 WantedGradients wanted) {
  return normalization_gradients(input, weight, input.size(1), wanted);
}

ThreeTensors layer_norm_backward(const Tensor& /*grad*/,
                                 const Tensor& input,
                                 Sizes /*normalized_shape*/,
                                 const Tensor& /*mean*/,
                                 const Tensor& /*inverse_deviation*/,
                                 const MaybeTensor& weight,
                                 const MaybeTensor& bias,
                                 WantedGradients wanted) {
  const auto like = [](bool is_wanted, const MaybeTensor& tensor) {
    return like_if(is_wanted && tensor.has_value() && tensor->defined(), tensor.value_or(Tensor()));
  };
  return {like_if(wanted[0], input), like(wanted[1], weight), like(wanted[2], bias)};
}

ThreeTensors group_norm_backward(const Tensor& /*grad*/,
                                 const Tensor& input,
                                 const Tensor& /*mean*/,
                                 const Tensor& /*inverse_deviation*/,
                                 const MaybeTensor& weight,
                                 int64_t /*num_samples*/,
                                 int64_t channels,
                                 int64_t /*positions*/,
                                 int64_t /*num_groups*/,
                                 WantedGradients wanted) {
  return normalization_gradients(input, weight, channels, wanted);
}

Tensor convolution(const Tensor& input,
                   const Tensor& weight,
                   const MaybeTensor& /*bias*/,
                   Sizes stride,
                   Sizes padding,
                   Sizes dilation,
                   bool is_transposed,
                   Sizes output_padding,
                   int64_t groups) {
  std::vector<int64_t> shape = {input.size(0),
                                is_transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t d = 2; d < input.dim(); ++d) {
    const auto i = static_cast<size_t>(d - 2);
    const int64_t reach = dilation[i] * (weight.size(d) - 1) + 1;
    shape.push_back(is_transposed ? (input.size(d) - 1) * stride[i] - 2 * padding[i] + reach +
                                        output_padding[i]
                                  : (input.size(d) + 2 * padding[i] - reach) / stride[i] + 1);
  }
  return at::empty(shape, input.options());
}

ThreeTensors convolution_backward(const Tensor& grad,
                                  const Tensor& input,
                                  const Tensor& weight,
                                  Sizes /*stride*/,
                                  Sizes /*padding*/,
                                  Sizes /*dilation*/,
                                  bool /*is_transposed*/,
                                  Sizes /*output_padding*/,
                                  int64_t /*groups*/,
                                  WantedGradients wanted) {
  return {like_if(wanted[0], input),
          like_if(wanted[1], weight),
          wanted[2] ? at::empty({grad.size(1)}, weight.options()) : Tensor()};
}

Tensor index_select(const Tensor& input, int64_t dim, const Tensor& index) {
  std::vector<int64_t> shape = input.sizes().vec();
  if (!shape.empty()) {
    shape[static_cast<size_t>(dim < 0 ? dim + input.dim() : dim)] = index.numel();
  }
  return at::empty(shape, input.options());
}

Tensor relu(const Tensor& input) {
  return at::empty_like(input);
}

Tensor& relu_in_place(Tensor& input) {
  return input;
}

// Registers a kernel unless libtorch has one.
template <class Kernel>
void add(torch::Library& library, const char* name, Kernel kernel) {
  const auto op = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, ""});
  if (op.has_value() && !op->hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    library.impl(name, kernel);
  }
}

}  // namespace

void register_meta_kernels() {
  // Never removed: measured tensors may outlive static objects.
  static const torch::Library* const library = [] {
    auto* const made = new torch::Library(
        torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    add(*made, "index_select", TORCH_FN(index_select));
    add(*made, "relu", TORCH_FN(relu));
    add(*made, "relu_", TORCH_FN(relu_in_place));
    add(*made, "native_batch_norm", TORCH_FN(batch_norm));
    add(*made, "native_batch_norm_backward", TORCH_FN(batch_norm_backward));
    add(*made, "native_layer_norm_backward", TORCH_FN(layer_norm_backward));
    add(*made, "native_group_norm_backward", TORCH_FN(group_norm_backward));
    add(*made, "convolution_overrideable", TORCH_FN(convolution));
    add(*made, "convolution_backward_overrideable", TORCH_FN(convolution_backward));
    return made;
  }();
  static_cast<void>(library);
}

}  // namespace tenon
