// SPDX-License-Identifier: Apache-2.0
//
// Options of tenon::attention and tenon::packed_attention.
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

}  // namespace tenon
