// SPDX-License-Identifier: Apache-2.0
//
// tenon::attention and tenon::packed_attention. On a CPU in fp32, without dropout, they never make
// a T x T matrix, and keys that no query sees cost no time.
//
// Source: Vaswani et al., Attention Is All You Need (2017), equation 1; Ainslie et al., GQA (2023);
// soft cap: Gemma Team, Gemma 2 (2024), section 2; Dao et al., FlashAttention (2022), algorithm 4,
// for the backward.
#pragma once

#include "host/kernels/attention_options.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// softmax(scale q k^T, masked) v by head. Query head h takes key and value head h / (H/K).
// Differentiable with respect to query, key and value.
//
// Shapes  query [B, T, H, E], key [B, S, K, E], value [B, S, K, V] with V <= E, where K divides H
//         and, with a mask or rotation, S = T; the result is [B, T, H, V]
// Errors  c10::IndexError on a CPU for a position outside of the table; c10::Error for shapes that
//         do not match
at::Tensor attention(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const AttentionOptions& options);

// Attention of joined projections: qkv is [B, T, (H + 2 K) E], queries, keys, values. Its gradient
// is one tensor too, which saves copies. The result is [B, T, H E].
at::Tensor packed_attention(const at::Tensor& qkv,
                            int64_t num_heads,
                            int64_t num_kv_heads,
                            const AttentionOptions& options);

}  // namespace tenon
