// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/kept_input.hpp"

#include "host/kernels/norm.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

namespace tenon {
namespace {

// The norm that made x, or the tensor that x shows in another shape.
std::optional<NormAgain> norm_behind(const at::Tensor& x) {
  if (!x.is_view()) {
    return norm_of(x);
  }
  const at::Tensor whole(x._base());
  const bool is_reshaped = x.numel() == whole.numel() && x.is_contiguous() &&
                           whole.is_contiguous() && x.storage_offset() == whole.storage_offset();
  return is_reshaped ? norm_of(whole) : std::nullopt;
}

}  // namespace

void keep_input(torch::autograd::AutogradContext& context,
                const at::Tensor& x,
                bool is_needed,
                torch::autograd::variable_list& saved) {
  context.saved_data["input_shape"] = x.sizes().vec();
  const std::optional<NormAgain> norm = is_needed ? norm_behind(x) : std::nullopt;
  context.saved_data["input_is_normed"] = norm.has_value();
  if (!norm) {
    saved.insert(saved.end(), {is_needed ? x : at::Tensor(), at::Tensor(), at::Tensor()});
    return;
  }
  context.saved_data["input_is_layer_normed"] = norm->is_layer_norm;
  context.saved_data["input_eps"] = norm->eps;
  saved.insert(saved.end(), {norm->x, norm->weight, norm->bias});
}

at::Tensor kept_input(const torch::autograd::AutogradContext& context,
                      const torch::autograd::variable_list& saved,
                      size_t first) {
  if (!context.saved_data.at("input_is_normed").toBool()) {
    return saved[first];
  }
  const NormAgain norm{.is_layer_norm = context.saved_data.at("input_is_layer_normed").toBool(),
                       .eps = context.saved_data.at("input_eps").toDouble(),
                       .x = saved[first],
                       .weight = saved[first + 1],
                       .bias = saved[first + 2]};
  return compute_again(norm).view(kept_shape(context));
}

std::vector<int64_t> kept_shape(const torch::autograd::AutogradContext& context) {
  return context.saved_data.at("input_shape").toIntVector();
}

bool any_requires_grad(at::TensorList tensors) {
  return std::ranges::any_of(tensors,
                             [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}

}  // namespace tenon
