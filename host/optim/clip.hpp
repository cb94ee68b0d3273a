// SPDX-License-Identifier: Apache-2.0
//
// Scaling, norms and clipping of the gradients of a step, as flat buffers. On the CPU, one pass
// over all gradients computes the norm, which also shows whether all gradients are finite. A second
// pass is made only if clipping changes something. On other devices, nothing here waits for the
// device.
// Threads: the train thread.
#pragma once

#include "host/tensor/flat_group.hpp"

#include <cstddef>
#include <vector>

namespace tenon {

// Multiplies every gradient by a scalar.
// Shapes  factor [] of any float dtype, on the groups' device
void scale_grads(std::vector<FlatGroup>& groups, const at::Tensor& factor);

// Returns the Euclidean norm of the gradients that this rank counts (FlatSharing::is_counted), for
// groups on the CPU. A single rank counts all gradients. Returns 0 if no parameter has a gradient.
// The sum is in fp64, so that the norm is finite if and only if these gradients are.
// kAll includes all gradients on this rank, even if another rank counts them.
enum class NormOf { kCounted, kAll };
double grad_norm(const std::vector<FlatGroup>& groups, NormOf which = NormOf::kCounted);

// Returns the Euclidean norm of the gradients of one group on the CPU, in fp64.
double grad_norm(const FlatGroup& group);

// Norms of gradients on any device.
struct GradientNorms {
  at::Tensor all;       // [] f64, of the gradients that this rank counts
  at::Tensor by_entry;  // [entries with a gradient] f64, in the order of groups and entries
};
GradientNorms device_grad_norms(const std::vector<FlatGroup>& groups);
// Returns the norms of the gradients of one group.
// Shapes  [entries with a gradient] f64
at::Tensor device_grad_norms(const FlatGroup& group);
// Multiplies every gradient by min(1, max_norm / (norm + 1e-6)).
// Source  Pascanu, Mikolov, Bengio, On the difficulty of training recurrent neural networks (2013);
//         the 1e-6 is as in torch.nn.utils.clip_grad_norm_
void clip_grad_norm(std::vector<FlatGroup>& groups, double norm, double max_norm);
void clip_grad_norm(std::vector<FlatGroup>& groups, const at::Tensor& norm, double max_norm);

// Clamps each element of each gradient to [-limit, limit].
void clip_grad_value(std::vector<FlatGroup>& groups, double limit);
void clip_grad_value(FlatGroup& group, double limit);

}  // namespace tenon
