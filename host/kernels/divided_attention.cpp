// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/divided_attention.hpp"

#include "host/kernels/autocast.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/gathered_attention.hpp"
#include "host/kernels/head_exchange.hpp"
#include "host/kernels/kept_attention.hpp"
#include "host/kernels/local_attention.hpp"
#include "host/kernels/rank_heads.hpp"
#include "host/kernels/rope.hpp"
#include "host/kernels/sequence_exchange.hpp"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <array>
#include <vector>

namespace tenon {
namespace {

void check_divided(const at::Tensor& query,
                   const at::Tensor& key,
                   const AttentionOptions& o,
                   const SequenceParts& parts) {
  TORCH_CHECK(o.dropout == 0.0,
              "tenon::attention: dropout of attention weights is not possible where positions are "
              "divided among ranks");
  TORCH_CHECK(
      query.size(1) == parts.length() && key.size(1) == parts.length(),
      "tenon::attention: positions are divided among ranks, so query and key must have the ",
      parts.length(),
      " positions of this rank, not ",
      query.size(1),
      " and ",
      key.size(1));
  TORCH_CHECK(!o.rotary || o.positions || o.rotary->size(1) >= parts.whole(),
              "tenon::attention: rotary ",
              o.rotary->sizes(),
              " must have a row for each of the ",
              parts.whole(),
              " positions of all ranks");
  TORCH_CHECK(!o.positions || (o.positions->dim() == 2 && o.positions->size(0) == query.size(0) &&
                               o.positions->size(1) == query.size(1) &&
                               at::isIntegralType(o.positions->scalar_type(),
                                                  /*includeBool=*/false)),
              "tenon::attention: positions ",
              o.positions->sizes(),
              " of ",
              o.positions->scalar_type(),
              " must be [B, T] of the query ",
              query.sizes(),
              ", integers");
}

// Rotates queries or keys of this rank's positions.
at::Tensor rotate_here(const at::Tensor& x, const AttentionOptions& o, const SequenceParts& parts) {
  return o.positions ? rope(x, *o.rotary, o.positions)
                     : rope(x, o.rotary->narrow(1, parts.begin(), parts.length()), std::nullopt);
}

struct SentOperands {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  AttentionOptions options;
  bool is_own = false;  // of Tenon's own kernels
};

// What is sent: of one dtype and, for libtorch's operators, rotated and in their dtype. All ranks
// choose the same kernels, also those without positions.
SentOperands prepare(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const AttentionOptions& options,
                     const SequenceParts& parts) {
  const at::ScalarType dtype = at::promote_types(
      query.scalar_type(), at::promote_types(key.scalar_type(), value.scalar_type()));
  SentOperands x{query.to(dtype), key.to(dtype), value.to(dtype), options};
  x.is_own = is_fused("attention", dtype, query.device());
  if (!x.is_own) {
    if (options.rotary) {
      x.q = rotate_here(x.q, options, parts);
      x.k = rotate_here(x.k, options, parts);
      x.options.rotary.reset();
      x.options.positions.reset();
    }
    const AutocastCopies copies(x.q);
    x = {copies.of(x.q), copies.of(x.k), copies.of(x.v), x.options};
  }
  if (x.options.positions) {
    x.options.positions = whole_integers(*x.options.positions, parts, "positions of attention");
  }
  if (x.options.segments) {
    x.options.segments = whole_integers(*x.options.segments, parts, "segments of attention");
  }
  return x;
}

at::Tensor attention_by_heads(const SentOperands& x, const SequenceParts& parts) {
  const auto [q, k, v] = exchange_to_heads(x.q, x.k, x.v, parts);
  // Without heads: no values, but a part of the graph, so that all ranks run the backward.
  const at::Tensor y =
      q.numel() == 0 ? q.narrow(3, 0, v.size(3)) : local_attention(q, k, v, x.options);
  return exchange_to_positions(y, x.q.size(2), parts);
}

// Counts what the call would keep, without values: nothing is sent.
at::Tensor counted(const at::Tensor& query,
                   const at::Tensor& key,
                   const at::Tensor& value,
                   const AttentionOptions& options,
                   const SequenceParts& parts) {
  if (parts.by == ContextBy::kHeads) {
    const RankHeads here =
        heads_of_ranks(query.size(2), key.size(2), parts.ranks->size())[parts.ranks->rank()];
    const at::Tensor q = at::empty(
        {query.size(0), parts.whole(), here.end - here.first, query.size(3)}, query.options());
    local_attention(q, q, q, options);
    return at::empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.options());
  }
  return local_attention(query, key, value, options);
}

}  // namespace

at::Tensor divided_attention(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const AttentionOptions& options,
                             const SequenceParts& parts) {
  check_divided(query, key, options, parts);
  if (is_attention_counted()) {
    return counted(query, key, value, options, parts);
  }
  const SentOperands x = prepare(query, key, value, options, parts);
  if (parts.by == ContextBy::kHeads) {
    return attention_by_heads(x, parts);
  }
  return x.is_own ? own_gathered_attention(x.q, x.k, x.v, x.options, parts)
                  : plain_gathered_attention(x.q, x.k, x.v, x.options, parts);
}

at::Tensor divided_packed_attention(const at::Tensor& qkv,
                                    int64_t num_heads,
                                    int64_t num_kv_heads,
                                    const AttentionOptions& options,
                                    const SequenceParts& parts) {
  const int64_t heads = num_heads + 2 * num_kv_heads;
  const std::vector<at::Tensor> x =
      qkv.unflatten(2, {heads, qkv.size(2) / heads})
          .split_with_sizes({num_heads, num_kv_heads, num_kv_heads}, 2);
  check_attention(x[0], x[1], x[2], options);
  return divided_attention(x[0], x[1], x[2], options, parts).flatten(2);
}

}  // namespace tenon
