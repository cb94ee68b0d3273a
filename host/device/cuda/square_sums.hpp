// SPDX-License-Identifier: Apache-2.0
//
// Kernels that compute exact sums of squares (host/device/exact_squares.hpp) on a GPU. They are the
// only code of the host that CUDA's compiler builds. Without it, the module lacks them.
// Errors: a launch that fails is returned.
// Threads: any; the work is in order on the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tenon {

enum class SquareDtype : uint8_t { kFloat, kDouble, kHalf, kBFloat16 };

// Adds the squares of `n` elements to words.
// Shapes  values [n], words [kExactWords], on the GPU; chunk a multiple of 16
cudaError_t launch_square_sums(const void* values,
                               SquareDtype dtype,
                               int64_t n,
                               int64_t chunk,
                               int64_t* words,
                               cudaStream_t stream);

// Sets `root` to the square root of the sum of words.
// Shapes  words [kExactWords], root [], on the GPU
cudaError_t launch_exact_root(const int64_t* words, double* root, cudaStream_t stream);

}  // namespace tenon
