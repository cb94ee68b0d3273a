// SPDX-License-Identifier: Apache-2.0
//
// Passes over a flat buffer in CPU memory that a step makes each time: no operator is called and
// nothing is allocated. They know no group and no gradient.
// Invariant: results do not depend on the number of threads.
// Threads: as libtorch's operators, on
// the compute threads of the caller.
#pragma once

#include <ATen/core/Tensor.h>

namespace tenon {

// The sum of squares, in fp64 whatever the dtype, so that no finite fp32 value overflows it. It is
// finite only if every element is.
// Shapes  flat [n] of a float dtype, contiguous, on the CPU
double square_sum(const at::Tensor& flat);

// The Euclidean norm. Infinite or NaN only if some element is: where squares of fp64 overflow, a
// second pass divides first.
// Shapes  as square_sum
double flat_norm(const at::Tensor& flat);

// Multiplies each element by `factor`, rounded to the dtype first where that is at least fp32.
// Shapes  as square_sum
void scale_flat(at::Tensor& flat, double factor);

}  // namespace tenon
