// SPDX-License-Identifier: Apache-2.0
//
// Chunks of fp32 values.
#include "host/tensor/chunk_sums.hpp"

#include "host/tensor/vector_clones.hpp"

namespace tenon {

TENON_SIMD void sum_chunks(const float* values, int64_t chunk, int64_t num, double* sums) {
  chunk_sums::sum_all(values, chunk, num, sums);
}

}  // namespace tenon
