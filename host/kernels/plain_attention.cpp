// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/plain_attention.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <optional>

namespace tenon {
namespace {

// True where a query may see a key: [T, S] or [B, 1, T, S].
at::Tensor visible(const at::Tensor& query_BTHE,
                   int64_t S,
                   const AttentionOptions& o,
                   int64_t first) {
  const int64_t T = query_BTHE.size(1);
  const at::Tensor at_S = at::arange(S, query_BTHE.options().dtype(at::kLong));
  const at::Tensor back_TS = at_S.narrow(0, first, T).unsqueeze(1) - at_S.unsqueeze(0);
  at::Tensor mask = back_TS.ge(0);
  if (o.window > 0) {
    mask = mask.logical_and(back_TS.lt(o.window));
  }
  if (o.segments) {
    // The number of the run that a position is in.
    const at::Tensor run_BS =
        at::constant_pad_nd(o.segments->diff().ne(0), {1, 0}, 0).to(at::kLong).cumsum(1);
    const at::Tensor run_BT = run_BS.narrow(1, first, T);
    mask = mask.logical_and(run_BT.unsqueeze(2).eq(run_BS.unsqueeze(1))).unsqueeze(1);
  }
  return mask;
}

}  // namespace

at::Tensor plain_attention(const at::Tensor& query_BTHE,
                           const at::Tensor& key_BSKE,
                           const at::Tensor& value_BSKV,
                           const AttentionOptions& o,
                           int64_t first) {
  const int64_t S = key_BSKE.size(1);
  const at::Tensor q_BHTE = query_BTHE.transpose(1, 2);
  at::Tensor k_BKSE = key_BSKE.transpose(1, 2);
  at::Tensor v_BKSV = value_BSKV.transpose(1, 2);
  const int64_t group = query_BTHE.size(2) / key_BSKE.size(2);
  const double scale = o.scale.value_or(1.0 / std::sqrt(static_cast<double>(query_BTHE.size(3))));
  // libtorch's own causal mask puts query 0 at key 0.
  const bool is_part = o.is_causal && query_BTHE.size(1) != S;
  const bool has_mask = o.window > 0 || o.segments.has_value() || is_part;
  // On a CPU, libtorch's grouped-query kernel is slow; repeating the keys costs much less.
  const bool repeats = group > 1 && (query_BTHE.device().is_cpu() || o.softcap > 0);
  if (repeats) {
    k_BKSE = k_BKSE.repeat_interleave(group, 1);
    v_BKSV = v_BKSV.repeat_interleave(group, 1);
  }
  if (o.softcap > 0) {
    at::Tensor scores = at::matmul(q_BHTE, k_BKSE.transpose(2, 3)) * scale;
    scores = o.softcap * at::tanh(scores / o.softcap);
    if (o.is_causal) {
      scores = scores.masked_fill(visible(query_BTHE, S, o, first).logical_not(),
                                  -std::numeric_limits<double>::infinity());
    }
    at::Tensor weights = at::softmax(scores, -1);
    if (o.dropout > 0) {
      weights = at::dropout(weights, o.dropout, /*train=*/true);
    }
    return at::matmul(weights, v_BKSV).transpose(1, 2);
  }
  const std::optional<at::Tensor> mask =
      has_mask ? std::optional(visible(query_BTHE, S, o, first)) : std::nullopt;
  return at::scaled_dot_product_attention(q_BHTE,
                                          k_BKSE,
                                          v_BKSV,
                                          mask,
                                          o.dropout,
                                          /*is_causal=*/o.is_causal && !has_mask,
                                          scale,
                                          /*enable_gqa=*/group > 1 && !repeats)
      .transpose(1, 2);
}

}  // namespace tenon
