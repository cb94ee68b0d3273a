// SPDX-License-Identifier: Apache-2.0
//
// tenon::embedding: rows of a matrix by id, with a dense gradient. This is for a model's own weight
// matrix; the tables of host/embedding grow and have 64-bit ids.
// Invariant: backward sorts the positions by id and sums each row in the order of positions, so no
// result depends on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon {

// weight[ids]. Differentiable with respect to `weight`; rows without ids have gradient 0.
//
// Shapes  weight [V, D]; ids integers of any shape [...]; the result is [..., D]
// Errors  c10::IndexError for an id outside [0, V), with its position, on a CPU; c10::Error if
//         weight is not a matrix or ids are not integers
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids);

}  // namespace tenon
