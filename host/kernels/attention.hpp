// SPDX-License-Identifier: Apache-2.0
//
// tenon::attention and tenon::packed_attention. On a CPU in fp32, without dropout, they never make
// a T x T matrix, and keys that no query sees cost no time.
//
// Source: Vaswani et al., Attention Is All You Need (2017), equation 1; Ainslie et al., GQA (2023);
// soft cap: Gemma Team, Gemma 2 (2024), section 2; Dao et al., FlashAttention (2022), algorithm 4,
// for the backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace tenon {

// What a query sees, and how its scores become weights.
struct AttentionOptions {
  // cos and sin of the rotation of queries and keys, [2, P, R/2] with P >= T, as in rope.hpp. The
  // first R features of a head are rotated.
  std::optional<at::Tensor> rotary = std::nullopt;
  // Rows of `rotary`, [B, T] integers in [0, P); absent: 0, 1, ...
  std::optional<at::Tensor> positions = std::nullopt;
  // Integers, [B, T]: a query sees only keys of its own segment, a run of equal numbers. For
  // packed documents.
  std::optional<at::Tensor> segments = std::nullopt;
  // A query sees at most this many keys: itself and those before it. 0: all.
  int64_t window = 0;
  // c tanh(score / c) instead of the score; 0: off.
  double softcap = 0.0;
  // Factor of the scores; 1/sqrt(E) if absent.
  std::optional<double> scale = std::nullopt;
  // Probability with which a weight is dropped; the others are scaled by 1 / (1 - dropout).
  double dropout = 0.0;
  // Whether a query sees no later keys. `window` and `segments` need it.
  bool is_causal = true;
};

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
