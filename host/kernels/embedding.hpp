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

// This rank's term of weight[ids] in a divided region (tensor_region.hpp): ranks divide the `whole`
// rows in rank order. Rows of other ranks are 0, so that the sum over ranks is the embedding. If
// several ranks have the same rows, the first of them has the term. Without a region, embedding().
//
// Shapes  weight [rows of this rank, D]; otherwise as embedding()
// Errors  as embedding(), for ids outside [0, whole); c10::Error if ranks do not have all rows
//         equally often
at::Tensor embedding_over(const at::Tensor& weight, const at::Tensor& ids, int64_t whole);

}  // namespace tenon
