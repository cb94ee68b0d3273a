// SPDX-License-Identifier: Apache-2.0
//
// Matrix products by the fastest of libtorch's BLAS (MKL), oneDNN and Tenon's own kernels. Which
// one is faster depends on the processor, the shape and the number of threads; kernel_choice.hpp
// decides.
//
// Letters in names: M rows, N output width, K input width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace tenon {

// [..., K] to [M, K]; a matrix is returned as it is.
at::Tensor as_rows(const at::Tensor& x);
// [M, N] to [..., N], with the leading axes of x [..., K], whose rows are those of y_MN.
at::Tensor with_axes_of(const at::Tensor& y_MN, const at::Tensor& x);

// Only fp32 and bf16 on a CPU have several candidates; other tensors take libtorch's product. So do
// products while gradients are recorded: only libtorch's have derivatives.

// x w^T + b: [M, N].
// Shapes  x_MK, w_NK with any strides; b_N optional
at::Tensor product_forward(const at::Tensor& x_MK,
                           const at::Tensor& w_NK,
                           const std::optional<at::Tensor>& b_N);

// x [w0; w1; ...]^T + b: [M, sum of N_i], of weights [N_i, K].
at::Tensor product_forward(const at::Tensor& x_MK,
                           at::TensorList weights,
                           const std::optional<at::Tensor>& bias);

// The weights below one another; the weight itself if it is the only one.
at::Tensor joined(at::TensorList weights);

// The gradient by x, g w: [M, K].
at::Tensor product_grad_input(const at::Tensor& g_MN, const at::Tensor& w_NK);

// The same of several weights [N_i, K], below one another.
at::Tensor product_grad_input(const at::Tensor& g_MN, at::TensorList weights);

// The gradient by w, g^T x: [N, K]. It may be a view with swapped strides.
at::Tensor product_grad_weight(const at::Tensor& g_MN, const at::Tensor& x_MK);

// Returns the bytes that fp32 products of a layer with a weight [N, K] may allocate on the CPU
// beside their results, at most, by the policy of kernel_choice.hpp. `has_gradient`: the gradient
// by the weight is computed.
int64_t product_bytes(int64_t M, int64_t N, int64_t K, int64_t threads, bool has_gradient);

}  // namespace tenon
