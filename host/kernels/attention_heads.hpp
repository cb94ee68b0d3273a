// SPDX-License-Identifier: Apache-2.0
//
// Attention by blocks of queries and keys in fp32, without ATen. Work is cut into tasks by shapes
// and segments, and each task writes its own part of the result, so results have the same bits for
// any number of threads. Scratch memory does not grow with the number of positions.
//
// Source: Dao, FlashAttention-2 (2023), algorithms 1 and 2.
#pragma once

#include <cstdint>

namespace tenon {

struct AttentionSizes {
  int64_t B = 0;
  int64_t T = 0;  // queries
  int64_t S = 0;  // keys
  int64_t H = 0;  // query heads
  int64_t K = 0;  // key and value heads
  int64_t E = 0;  // width of a head
};

// [B, positions, heads, E] by strides; the last axis is dense.
template <class Float>
struct HeadRows {
  Float* data = nullptr;
  int64_t batch = 0;
  int64_t position = 0;
  int64_t head = 0;

  Float* at(int64_t b, int64_t t, int64_t h) const {
    return data + b * batch + t * position + h * head;
  }
};

// A query sees one range of keys. Its ends never decrease from one query to the next.
struct AttentionInput {
  AttentionSizes sizes;
  int64_t first = 0;  // position of query 0 among the keys; first + T <= S with a mask or rotation
  HeadRows<const float> q;
  HeadRows<const float> k;
  HeadRows<const float> v;
  const float* cos = nullptr;  // [P, rotated/2]: rotates queries and keys; null: no rotation
  const float* sin = nullptr;
  int64_t rotated = 0;                 // features at the start of a head that are rotated
  const int64_t* positions = nullptr;  // row of cos and sin of each key, [B, S]; null: its index
  const int32_t* starts = nullptr;     // first visible key of each query, [T]; null: 0
  int64_t starts_batch = 0;            // stride of `starts` over samples
  bool is_causal = true;               // query t sees no key after first + t
  float scale = 1.0f;                  // of scores
  float softcap = 0.0f;                // 0: none
};

struct AttentionOutput {
  HeadRows<float> y;
  float* sums = nullptr;  // log(sum(exp(scores))) of each query, [B, H, T]
};

struct AttentionGrads {
  HeadRows<const float> y;
  const float* sums = nullptr;
  HeadRows<const float> grad_y;
  HeadRows<float> grad_q;
  HeadRows<float> grad_k;
  HeadRows<float> grad_v;
};

// What one task of the backward computes: the gradients of a range of keys and values of one head
// from a range of its query heads, and that of a range of the queries from these keys. The queries
// include all that see any of the keys.
struct AttentionPart {
  int64_t b = 0;
  int64_t kv_head = 0;
  int64_t first_head = 0;
  int64_t end_head = 0;
  int64_t first_key = 0;
  int64_t end_key = 0;
  int64_t first_query = 0;
  int64_t end_query = 0;
};

// Number of scratch floats for the functions below. They must be zero before the first call.
int64_t attention_scratch(const AttentionSizes& sizes);

// Number of forward tasks. Each is a block of queries of one head.
int64_t attention_tasks(const AttentionSizes& sizes);
void attend(const AttentionInput& in, int64_t task, const AttentionOutput& out, float* scratch);

// Keys that the backward keeps in cache.
int64_t attention_chunk(const AttentionSizes& sizes);

// Writes all gradients of `part`; it adds to none.
void attend_backward(const AttentionInput& in,
                     const AttentionPart& part,
                     const AttentionGrads& grads,
                     float* scratch);

}  // namespace tenon
