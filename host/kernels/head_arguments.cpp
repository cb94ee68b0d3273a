// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/head_arguments.hpp"

#include <ATen/ATen.h>

namespace tenon {

void check_head_shapes(std::string_view op,
                       const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& labels,
                       const at::Tensor& bias) {
  TORCH_CHECK(x.dim() == labels.dim() + 1 &&
                  x.sizes().slice(0, static_cast<size_t>(labels.dim())) == labels.sizes() &&
                  weight.dim() == 2 && weight.size(0) > 0 && weight.size(1) == x.size(-1),
              "tenon::",
              op,
              ": x ",
              x.sizes(),
              ", weight ",
              weight.sizes(),
              " and labels ",
              labels.sizes(),
              " do not match; expected [..., D], [V, D] and [...], with V at least 1");
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)),
              "tenon::",
              op,
              ": bias ",
              bias.defined() ? bias.sizes() : at::IntArrayRef(),
              " does not match weight ",
              weight.sizes(),
              "; expected [V]");
  TORCH_CHECK(at::isIntegralType(labels.scalar_type(), /*includeBool=*/false),
              "tenon::",
              op,
              ": labels are ",
              labels.scalar_type(),
              "; expected integers");
}

void check_head_dtypes(std::string_view op,
                       const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& bias) {
  TORCH_CHECK(at::isFloatingType(x.scalar_type()) && weight.scalar_type() == x.scalar_type() &&
                  (!bias.defined() || bias.scalar_type() == x.scalar_type()),
              "tenon::",
              op,
              ": x is ",
              x.scalar_type(),
              ", weight ",
              weight.scalar_type(),
              " and bias ",
              bias.defined() ? c10::toString(bias.scalar_type()) : "absent",
              "; expected one floating-point dtype");
}

void check_labels(std::string_view op,
                  const at::Tensor& labels_N,
                  at::IntArrayRef shape,
                  int64_t num_classes,
                  int64_t ignore_index) {
  if (labels_N.is_cuda()) {
    at::_assert_async(labels_N.ge(0)
                          .logical_and(labels_N.lt(num_classes))
                          .logical_or(labels_N.eq(ignore_index))
                          .all(),
                      "a label is neither a row of weight nor ignore_index");
  }
  if (!labels_N.device().is_cpu()) {
    return;
  }
  const int64_t* const values = labels_N.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < labels_N.numel(); ++i) {
    TORCH_CHECK_INDEX((values[i] >= 0 && values[i] < num_classes) || values[i] == ignore_index,
                      "tenon::",
                      op,
                      ": label ",
                      values[i],
                      " at position ",
                      i,
                      " of labels ",
                      shape,
                      " is neither in [0, ",
                      num_classes,
                      "), the rows of weight, nor ignore_index (",
                      ignore_index,
                      ")");
  }
}

}  // namespace tenon
