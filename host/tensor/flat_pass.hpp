// SPDX-License-Identifier: Apache-2.0
//
// Passes over a flat buffer in CPU memory that every step makes. They call no operator, allocate
// nothing, and know no groups or gradients.
// Invariant: results do not depend on the number of threads.
// Threads: as libtorch's operators, on the compute threads of the caller.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon {

// Returns the sum of squares, in fp64 for any dtype, so that no finite fp32 value overflows it. The
// sum is finite only if every element is.
// Shapes  flat [n] of a float dtype, contiguous, on the CPU
double square_sum(const at::Tensor& flat);

// Returns the Euclidean norm, non-finite only if an element is. If squares overflow fp64, a second
// pass scales the elements first.
// Shapes  as square_sum
double flat_norm(const at::Tensor& flat);

// Multiplies each element by `factor`. For dtypes of at least fp32, `factor` is first rounded to
// the dtype.
// Shapes  as square_sum
void scale_flat(at::Tensor& flat, double factor);

}  // namespace tenon
