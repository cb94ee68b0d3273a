// SPDX-License-Identifier: Apache-2.0
//
// tenon::rms_norm, tenon::add_rms_norm and tenon::layer_norm, each in one pass forward and one
// backward on a CPU in fp32.
// Invariant: gradients of weights are summed in pieces that depend on the shape only, so no result
// depends on the number of threads.
//
// Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019), equation 4; Ba, Kiros
// and Hinton, Layer Normalization (2016), section 3.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace tenon {

// x / sqrt(mean(x^2) + eps) * weight over the last axis.
// Shapes  x [..., D], weight [D]; the result is as x
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// h = x + delta, and rms_norm(h).
std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                                const at::Tensor& delta,
                                                const at::Tensor& weight,
                                                double eps);

// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axis, with the biased variance.
// Shapes  x [..., D], weight and bias [D]; absent: 1 and 0. The result is as x
// Errors  c10::Error if weight or bias is not [D], or x has no axes
at::Tensor layer_norm(const at::Tensor& x,
                      const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias,
                      double eps);

// How to compute the result of a norm again, from tensors that the norm keeps for its backward.
struct NormAgain {
  bool is_layer_norm = false;
  double eps = 0.0;
  at::Tensor x;
  at::Tensor weight;  // undefined: 1
  at::Tensor bias;    // undefined: 0
};

// Returns how to compute `y` again if one of the functions above made it, with its own kernel and
// for autograd; nothing for other tensors, and after the backward of the norm.
std::optional<NormAgain> norm_of(const at::Tensor& y);

// Returns the result, to the same bits; while gradients are recorded, by libtorch's operator.
at::Tensor compute_again(const NormAgain& norm);

}  // namespace tenon
