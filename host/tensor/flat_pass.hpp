// SPDX-License-Identifier: Apache-2.0
//
// Passes over a flat buffer in CPU memory that every step makes. They call no operator, allocate
// nothing, and know no groups or gradients.
// Invariant: results do not depend on the number of threads.
// Threads: as libtorch's operators, on the compute threads of the caller.
#pragma once

#include "host/tensor/exact_sum.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// Adds the squares of all elements to an exact sum. The squares of each `chunk` consecutive
// elements are summed in fp64 in a fixed order (chunk_sums.hpp), and the sums of chunks are added
// exactly. So any cut between chunks gives the same bits. A short last chunk counts as one that
// ends in zeros. Narrow dtypes are computed as fp32. No finite fp32 value overflows; fp64 values
// from 2^508 may.
// Shapes  flat [n] of a float dtype, contiguous, on the CPU; chunk a multiple of kSquareLanes
void add_squares(ExactSum& sum, const at::Tensor& flat, int64_t chunk);

// Multiplies each element by `factor`. For dtypes of at least fp32, `factor` is first rounded to
// the dtype.
// Shapes  as add_squares
void scale_flat(at::Tensor& flat, double factor);

}  // namespace tenon
