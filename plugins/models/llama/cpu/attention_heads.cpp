// SPDX-License-Identifier: Apache-2.0
#include "attention_heads.hpp"

#include <algorithm>
#include <cmath>

// Queries per block: enough for fast products, few enough to waste little work on masked positions.
inline constexpr int64_t kAttentionRows = 32;

#define SIMD_KERNELS "../models/llama/cpu/attention_kernels.hpp"
#include "../../../simd/each_machine.hpp"

int64_t attention_scratch(const AttentionSizes& sizes) {
  return SIMD_CHOICE(scratch_floats)(sizes);
}

void attend_group(const AttentionInput& in, int64_t group, float* y, float* sums, float* scratch) {
  SIMD_CHOICE(run_forward)(in, group, y, sums, scratch);
}

void attend_group_backward(const AttentionInput& in,
                           int64_t group,
                           const float* sums,
                           const float* grad_y,
                           float* grad_qkv,
                           float* scratch) {
  SIMD_CHOICE(run_backward)(in, group, sums, grad_y, grad_qkv, scratch);
}
