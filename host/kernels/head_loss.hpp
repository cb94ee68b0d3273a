// SPDX-License-Identifier: Apache-2.0
//
// tenon::cross_entropy and tenon::token_logps: a head (a matrix product) and its loss, without the
// logits in memory. Forward and backward compute the logits in tiles of at most 4 MiB in fp32;
// backward computes them again, from two numbers per row. Between the two, only the inputs and
// these numbers are kept. If neither weight nor bias is trained, forward computes the gradient by x
// too, and backward no logits. On a CPU, rows with an ignored label are skipped: they cost nothing.
//
// For the logits x = h weight^T + bias of V classes, label y, smoothing s, z-loss coefficient c and
// z = log(sum(exp(x))):
//
//     loss = z - (1 - s) x[y] - s mean(x) + c z^2
//     gradient by x = (1 + 2 c z) softmax(x) - (1 - s) onehot(y) - s / V
//
// Invariant: tiles depend on the shape and on which labels count, and sums over tiles are in order.
// If the products of products.hpp do not depend on the number of threads, no result does.
//
// Source: Bishop, Pattern Recognition and Machine Learning (2006), section 4.3.4; smoothing:
// Szegedy et al., Rethinking the Inception Architecture for Computer Vision (CVPR 2016), section 7;
// z-loss: Chowdhery et al., PaLM: Scaling Language Modeling with Pathways (JMLR 2023), section 5.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace tenon {

// The loss of each label, 0 if ignored. Sums over classes and tiles are fp32 (fp64 for fp64).
//
// Shapes  x [..., D], weight [V, D], bias [V], labels [...] integers; the result is [...] fp32,
//         fp64 for fp64
// Units   nats
// Errors  c10::Error for shapes, dtypes or options that do not match; c10::IndexError, on a CPU,
//         for a label that is neither in [0, V) nor `ignore_index`, with its position
at::Tensor cross_entropy(const at::Tensor& x,
                         const at::Tensor& weight,
                         const at::Tensor& labels,
                         const std::optional<at::Tensor>& bias,
                         int64_t ignore_index,
                         double label_smoothing,
                         double z_loss);

// The log-probability of each label under softmax((x weight^T + bias) / temperature), 0 if ignored.
//
// Shapes  as cross_entropy
// Units   nats; at most 0
// Errors  as cross_entropy; temperature must be positive
at::Tensor token_logps(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& labels,
                       const std::optional<at::Tensor>& bias,
                       int64_t ignore_index,
                       double temperature);

// ---- in a divided region (tensor_region.hpp), whose ranks divide the `whole` classes in rank
// order

// cross_entropy() of all classes. The result is the same on all ranks, and leaves the region by
// itself: one exchange of a few numbers per row. The gradient of x is this rank's term, as that of
// any product in the region. If several ranks have the same classes, the first of them has the
// terms. Without a region, cross_entropy().
//
// Shapes  weight [classes of this rank, D] and bias likewise; otherwise as cross_entropy
// Errors  as cross_entropy, for labels outside [0, whole); c10::Error if ranks do not have all
//         classes equally often
at::Tensor cross_entropy_over(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& labels,
                              int64_t whole,
                              const std::optional<at::Tensor>& bias,
                              int64_t ignore_index,
                              double label_smoothing,
                              double z_loss);

// The same for token_logps().
at::Tensor token_logps_over(const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& labels,
                            int64_t whole,
                            const std::optional<at::Tensor>& bias,
                            int64_t ignore_index,
                            double temperature);

}  // namespace tenon
