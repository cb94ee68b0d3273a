// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/attention_heads.hpp"

#include "host/kernels/attention_blocks.hpp"

#include <cmath>

using namespace tenon;

#define SIMD_KERNELS "host/kernels/attention_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace tenon {

int64_t attention_scratch(const AttentionSizes& sizes) {
  return SIMD_CHOICE(attention_scratch_floats)(sizes);
}

int64_t attention_tasks(const AttentionSizes& sizes) {
  return sizes.B * sizes.H * blocks_of(sizes.T, kQueries);
}

void attend(const AttentionInput& in, int64_t task, const AttentionOutput& out, float* scratch) {
  SIMD_CHOICE(attend_queries)(in, task, out, scratch);
}

int64_t attention_chunk(const AttentionSizes& sizes) {
  return chunk_keys(sizes.S, sizes.E);
}

void attend_backward(const AttentionInput& in,
                     const AttentionPart& part,
                     const AttentionGrads& grads,
                     float* scratch) {
  SIMD_CHOICE(attend_keys_backward)(in, part, grads, scratch);
}

}  // namespace tenon
