// SPDX-License-Identifier: Apache-2.0
//
// Refuses arguments of heads with a loss that do not match. `op` is the operator's name without
// namespace. Errors are c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace tenon {

// Shapes  x [..., D], weight [V, D], labels [...] integers; bias [V] or undefined
void check_head_shapes(std::string_view op,
                       const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& labels,
                       const at::Tensor& bias);

// All have one floating-point dtype.
void check_head_dtypes(std::string_view op,
                       const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& bias);

// `shape` is that of the labels before they became one axis. A GPU stops by an assertion, without a
// wait for the values.
// Errors  c10::IndexError, on a CPU, with the position of a label
void check_labels(std::string_view op,
                  const at::Tensor& labels_N,
                  at::IntArrayRef shape,
                  int64_t num_classes,
                  int64_t ignore_index);

}  // namespace tenon
