// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions and causal attention of one key and value head with the query heads that share
// it, in fp32, without ATen. Blocks of queries attend to all keys up to their position. Scores live
// in scratch memory, never as a whole matrix, and masked positions are skipped.
// Invariant: groups of heads are independent, so no result depends on the number of threads.
#pragma once

#include <cstdint>

struct AttentionSizes {
  int64_t B = 0;
  int64_t T = 0;
  int64_t H = 0;  // query heads
  int64_t K = 0;  // key and value heads
  int64_t E = 0;  // width of a head, even
};

// Concatenated queries, keys and values, [B, T, (H + 2 K) E], and cos and sin, [2, T, E/2].
struct AttentionInput {
  AttentionSizes sizes;
  const float* qkv = nullptr;
  const float* table = nullptr;
};

// Number of scratch floats for the functions below. They must be zero before the first call.
int64_t attention_scratch(const AttentionSizes& sizes);

// Writes y, [B, T, H E], and log(sum(exp(scores))) of each query, [B, H, T]. `group` is in [0, B
// K).
void attend_group(const AttentionInput& in, int64_t group, float* y, float* sums, float* scratch);

// Computes the gradient with respect to qkv from the sums written by attend_group and the gradient
// with respect to y.
void attend_group_backward(const AttentionInput& in,
                           int64_t group,
                           const float* sums,
                           const float* grad_y,
                           float* grad_qkv,
                           float* scratch);
