// SPDX-License-Identifier: Apache-2.0
//
// Norms of the gradients of a step, as flat buffers. The squares of each chunk of a group are
// summed in a fixed order, and the sums of chunks are added exactly. So equal gradients have the
// same norm, bit for bit, however they are sharded, and on however many ranks. On the CPU, one pass
// computes the norm, which also shows whether all gradients are finite. On other devices, nothing
// here waits for the device. Threads: the train thread.
#pragma once

#include "host/tensor/exact_sum.hpp"
#include "host/tensor/flat_group.hpp"

#include <functional>
#include <vector>

namespace tenon {

// The gradients that this rank counts (FlatSharing::is_counted), or all gradients on this rank,
// even if another rank counts them. A single rank counts all.
enum class NormOf { kCounted, kAll };

// ---- groups on the CPU ----

// A factor of elements before they are squared: 1, or 2^-600. Squares of fp64 elements may overflow
// although their norm does not; with kSmall they do not.
enum class SquareScale { kOne, kSmall };

// Adds the squares of the gradients of a group, in fp64.
void add_grad_squares(ExactSum& sum, const FlatGroup& group, SquareScale scale);
ExactSum grad_squares(const std::vector<FlatGroup>& groups, NormOf which, SquareScale scale);

// Returns the norm whose squares `squares` sums over all ranks. Calls `squares` with kOne, and
// again with kSmall if that sum is infinite, which is so on all ranks or on none.
double norm_of_squares(const std::function<ExactSum(SquareScale)>& squares);

// Returns the Euclidean norm of gradients of this rank; 0 if no parameter has a gradient. It is
// finite if and only if these gradients are.
double grad_norm(const std::vector<FlatGroup>& groups, NormOf which = NormOf::kCounted);

// ---- groups on any device ----

struct GradientNorms {
  // The exact sum of the squares that this rank counts (exact_squares.hpp): words of ranks are
  // added up. Undefined on a GPU whose module has no kernels.
  // Shapes  [kExactWords] i64
  at::Tensor squares;
  // The norm of the gradients that this rank counts. Infinite if squares of fp64 elements overflow.
  // Shapes  [] f64
  at::Tensor all;
  // In the order of groups and entries.
  // Shapes  [entries with a gradient] f64
  at::Tensor by_entry;
};
GradientNorms device_grad_norms(const std::vector<FlatGroup>& groups);
// Returns the norms of the gradients of one group.
// Shapes  [entries with a gradient] f64
at::Tensor entry_grad_norms(const FlatGroup& group);
// Returns the norms from the sum of squares, if it is defined, and the norms of entries.
// Shapes  as in GradientNorms
GradientNorms norms_of(at::Tensor squares, at::Tensor by_entry);

}  // namespace tenon
