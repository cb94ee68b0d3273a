// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions and causal attention of one key and value head and the query heads that share
// it, in fp32, without ATen. Queries go by blocks of rows against all keys up to them; scores live
// in scratch memory, never a whole matrix, and what lies in the future is not computed. Invariant:
// each group of heads is worked on alone, so that no result depends on threads.
#pragma once

#include <cstdint>

struct AttentionSizes {
  int64_t B = 0;
  int64_t T = 0;
  int64_t H = 0;  // query heads
  int64_t K = 0;  // key and value heads
  int64_t E = 0;  // width of a head, even
};

// Queries, keys and values side by side, [B, T, (H + 2 K) E], and cos and sin, [2, T, E/2].
struct AttentionInput {
  AttentionSizes sizes;
  const float* qkv = nullptr;
  const float* table = nullptr;
};

// Floats that the functions below need for themselves, zeros before the first call.
int64_t attention_scratch(const AttentionSizes& sizes);

// Writes y, [B, T, H E], and log(sum(exp(scores))) of each query, [B, H, T]. `group` is in [0, B
// K).
void attend_group(const AttentionInput& in, int64_t group, float* y, float* sums, float* scratch);

// From the sums that attend_group wrote, and the gradient by y, the gradient by qkv.
void attend_group_backward(const AttentionInput& in,
                           int64_t group,
                           const float* sums,
                           const float* grad_y,
                           float* grad_qkv,
                           float* scratch);
