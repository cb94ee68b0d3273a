// SPDX-License-Identifier: Apache-2.0
//
// Scaling and clipping of the gradients of a step, as flat buffers; gradient_norm.hpp has their
// norm. On the CPU, a pass is made only if clipping changes something. On other devices, nothing
// here waits for the device. Threads: the train thread.
#pragma once

#include "host/tensor/flat_group.hpp"

#include <vector>

namespace tenon {

// Multiplies every gradient by a scalar.
// Shapes  factor [] of any float dtype, on the groups' device
void scale_grads(std::vector<FlatGroup>& groups, const at::Tensor& factor);

// Multiplies every gradient by min(1, max_norm / (norm + 1e-6)).
// Source  Pascanu, Mikolov, Bengio, On the difficulty of training recurrent neural networks (2013);
//         the 1e-6 is as in torch.nn.utils.clip_grad_norm_
void clip_grad_norm(std::vector<FlatGroup>& groups, double norm, double max_norm);
void clip_grad_norm(std::vector<FlatGroup>& groups, const at::Tensor& norm, double max_norm);

// Clamps each element of each gradient to [-limit, limit].
void clip_grad_value(std::vector<FlatGroup>& groups, double limit);
void clip_grad_value(FlatGroup& group, double limit);

}  // namespace tenon
