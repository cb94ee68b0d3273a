// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/kept_input.hpp"

#include "host/kernels/gated_product.hpp"
#include "host/kernels/norm.hpp"
#include "host/kernels/products.hpp"
#include "host/kernels/tensor_borders.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace tenon {
namespace {

enum class Maker : int64_t { kOther, kRmsNorm, kLayerNorm, kGatedProduct };

struct Kept {
  Maker maker = Maker::kOther;
  double eps = 0.0;
  std::array<at::Tensor, kKeptTensors> tensors;
  GatheredInputPtr gathered;  // null: the tensors are of the whole input
};

// The tensor that x shows, perhaps in another shape.
at::Tensor shown_by(const at::Tensor& x) {
  if (!x.is_view()) {
    return x;
  }
  const at::Tensor whole(x._base());
  const bool is_reshaped = x.numel() == whole.numel() && x.is_contiguous() &&
                           whole.is_contiguous() && x.storage_offset() == whole.storage_offset();
  return is_reshaped ? whole : x;
}

Kept kept_of(const NormAgain& norm) {
  return {.maker = norm.is_layer_norm ? Maker::kLayerNorm : Maker::kRmsNorm,
          .eps = norm.eps,
          .tensors = {norm.x, norm.weight, norm.bias},
          .gathered = {}};
}

Kept kept_of(const at::Tensor& x) {
  const at::Tensor made = shown_by(x);
  if (const auto norm = norm_of(made)) {
    return kept_of(*norm);
  }
  if (auto entered = entered_piece_of(made)) {
    Kept kept =
        entered->norm ? kept_of(*entered->norm) : Kept{.tensors = {entered->piece}, .gathered = {}};
    kept.gathered = std::move(entered->input);
    return kept;
  }
  if (const auto factors = gated_factors_of(made)) {
    return {.maker = Maker::kGatedProduct, .tensors = {factors->gate, factors->up}, .gathered = {}};
  }
  return {.tensors = {x}, .gathered = {}};
}

// The tensor that was kept, or the piece of it.
at::Tensor made_again(const torch::autograd::AutogradContext& context,
                      const torch::autograd::variable_list& saved,
                      size_t first) {
  const auto found = context.saved_data.find("input_maker");
  if (found == context.saved_data.end()) {
    return saved[first];
  }
  const auto maker = static_cast<Maker>(found->second.toInt());
  if (maker == Maker::kGatedProduct) {
    return compute_again(GatedFactors{saved[first], saved[first + 1]});
  }
  const NormAgain norm{.is_layer_norm = maker == Maker::kLayerNorm,
                       .eps = context.saved_data.at("input_eps").toDouble(),
                       .x = saved[first],
                       .weight = saved[first + 1],
                       .bias = saved[first + 2]};
  return compute_again(norm);
}

}  // namespace

void keep_input(torch::autograd::AutogradContext& context,
                const at::Tensor& x,
                bool is_needed,
                torch::autograd::variable_list& saved) {
  const Kept kept = is_needed ? kept_of(x) : Kept{};
  if (kept.maker != Maker::kOther) {
    context.saved_data["input_maker"] = static_cast<int64_t>(kept.maker);
    context.saved_data["input_eps"] = kept.eps;
  }
  if (kept.gathered) {
    context.saved_data["input_gathered"] = c10::IValue::make_capsule(
        c10::static_intrusive_pointer_cast<torch::CustomClassHolder>(kept.gathered));
  }
  saved.insert(saved.end(), kept.tensors.begin(), kept.tensors.end());
}

at::Tensor kept_input(const torch::autograd::AutogradContext& context,
                      const torch::autograd::variable_list& saved,
                      size_t first) {
  const auto found = context.saved_data.find("input_gathered");
  if (found == context.saved_data.end()) {
    return as_rows(made_again(context, saved, first));
  }
  const auto input = c10::static_intrusive_pointer_cast<GatheredInput>(found->second.toCapsule());
  return as_rows(input->whole.defined() ? input->whole
                                        : gather_again(*input, made_again(context, saved, first)));
}

bool is_gathered_input(const at::Tensor& x) {
  return entered_piece_of(shown_by(x)).has_value();
}

bool any_requires_grad(at::TensorList tensors) {
  return std::ranges::any_of(tensors,
                             [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}

}  // namespace tenon
