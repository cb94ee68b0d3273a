// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/tensor_views.hpp"

#include "host/tools/check/sample_inputs.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tenon {
namespace {

constexpr int64_t kOffsetBytes = 64;  // where parameters start in a flat group

// A tensor of rubbish, so that a read outside of a view shows.
at::Tensor rubbish(const std::vector<int64_t>& shape, const at::Tensor& like) {
  const at::Tensor made = at::empty(shape, like.options());
  const at::ScalarType dtype = like.scalar_type();
  if (at::isFloatingType(dtype) || at::isComplexType(dtype)) {
    return made.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  // 1 fits any integer type, and is larger than most sizes of what it is an index of.
  return made.fill_(dtype == at::kBool || dtype == at::kByte || dtype == at::kChar
                        ? 1
                        : std::numeric_limits<int16_t>::max());
}

at::Tensor with_offset(const at::Tensor& values) {
  const auto before = kOffsetBytes / static_cast<int64_t>(values.element_size());
  const at::Tensor flat = rubbish({before + values.numel() + before}, values);
  at::Tensor view = flat.narrow(0, before, values.numel()).view(values.sizes());
  return view.copy_(values);
}

at::Tensor with_gaps(const at::Tensor& values) {
  std::vector<int64_t> shape = values.sizes().vec();
  shape.back() *= 2;
  at::Tensor view = rubbish(shape, values).slice(-1, 1, std::nullopt, 2);
  return view.copy_(values);
}

}  // namespace

std::string_view view_name(ViewKind kind) {
  switch (kind) {
    case ViewKind::kOffset:
      return "with an offset";
    case ViewKind::kGaps:
      return "with gaps";
    case ViewKind::kTransposed:
      break;
  }
  return "transposed";
}

at::Tensor view_of(const at::Tensor& tensor, ViewKind kind) {
  if (!tensor.defined()) {
    return tensor;
  }
  const at::Tensor values = tensor.detach();
  if (kind == ViewKind::kOffset || values.dim() == 0) {
    return with_offset(values);
  }
  if (kind == ViewKind::kGaps || values.dim() < 2) {
    return with_gaps(values);
  }
  return values.transpose(-1, -2).clone(at::MemoryFormat::Contiguous).transpose(-1, -2);
}

std::vector<at::Tensor> views_of(const std::vector<at::Tensor>& tensors, ViewKind kind) {
  std::vector<at::Tensor> views;
  for (const at::Tensor& tensor : tensors) {
    views.push_back(view_of(tensor, kind));
  }
  return views;
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.defined() ? tensor.detach().clone() : tensor);
  }
  return copies;
}

bool is_close(const at::Tensor& found, const at::Tensor& expected, double tolerance) {
  if (found.defined() != expected.defined()) {
    return false;
  }
  if (!found.defined() || found.is_same(expected)) {
    return true;
  }
  if (found.sizes() != expected.sizes() || found.scalar_type() != expected.scalar_type()) {
    return false;
  }
  if (!at::isFloatingType(found.scalar_type())) {
    return is_same_to_the_bit(found, expected);
  }
  if (found.numel() == 0) {
    return true;
  }
  const at::Tensor a = found.detach().to(at::kDouble);
  const at::Tensor b = expected.detach().to(at::kDouble);
  const at::Tensor finite = at::nan_to_num(b, 0.0, 0.0, 0.0);
  const double largest = finite.abs().max().item<double>();
  return at::allclose(a, b, 0, tolerance * std::max(1.0, largest), /*equal_nan=*/true);
}

}  // namespace tenon
