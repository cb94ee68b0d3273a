// SPDX-License-Identifier: Apache-2.0
//
// Passes over the gradients of a step, as flat buffers: scaling, norm, clipping. On the CPU one
// pass reads all gradients, and gives the norm and with it whether all are finite; a second one is
// made only where clipping changes something. On another device nothing here waits for it.
// Threads: the train thread.
#pragma once

#include "host/tensor/flat_group.hpp"

#include <cstddef>
#include <vector>

namespace tenon {

// Multiplies every gradient by a scalar.
// Shapes  factor [] of any float dtype, on the groups' device
void scale_grads(std::vector<FlatGroup>& groups, const at::Tensor& factor);

// The Euclidean norm of the gradients that this rank counts (FlatSharing::is_counted), on one rank
// that of all, of groups on the CPU; 0 if no parameter was touched. It is finite if and only if
// these gradients are: it is added up in fp64.
// With kAll that of all that this rank has, whoever counts it.
enum class NormOf { kCounted, kAll };
double grad_norm(const std::vector<FlatGroup>& groups, NormOf which = NormOf::kCounted);

// The same for groups on any device.
struct GradientNorms {
  at::Tensor all;       // [] f64, of those that this rank counts
  at::Tensor by_entry;  // [touched entries] f64, in the order of groups and entries
};
GradientNorms device_grad_norms(const std::vector<FlatGroup>& groups);
// Multiplies every gradient by min(1, max_norm / (norm + 1e-6)).
// Source  Pascanu, Mikolov, Bengio, On the difficulty of training recurrent neural networks (2013);
//         the 1e-6 is that of torch.nn.utils.clip_grad_norm_
void clip_grad_norm(std::vector<FlatGroup>& groups, double norm, double max_norm);
void clip_grad_norm(std::vector<FlatGroup>& groups, const at::Tensor& norm, double max_norm);

// Cuts each element of each gradient to [-limit, limit].
void clip_grad_value(std::vector<FlatGroup>& groups, double limit);

}  // namespace tenon
