// SPDX-License-Identifier: Apache-2.0
//
// The attention block of a layer: parameters and forward. DecoderSpec says which norms, biases and
// heads it has.
//
// Tensor ranks divide the heads. The block enters the divided region behind its first norm, or
// behind the products that compress queries, keys and values, and leaves it with the product that
// makes the output. The numbers of heads in the region follow from the widths of the weights.
//
// Letters in tensor names: B samples, T positions, D width, H query heads, K key and value heads, E
// width of a head.
#ifndef TENON_DECODER_ATTENTION_HPP
#define TENON_DECODER_ATTENTION_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/decoder/parameters.hpp>
#include <tenon/decoder/spec.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

TENON_NAMESPACE_BEGIN

/* Dropout in training; the tensor itself otherwise. */
inline at::Tensor dropped(const BlockCall& b, const at::Tensor& x, double probability) {
  return b.is_train() && probability > 0.0 ? at::dropout(x, probability, /*train=*/true) : x;
}

inline bool has_norm_before(const DecoderSpec& s) {
  return s.placement != NormPlacement::kPost;
}
inline bool has_norm_after(const DecoderSpec& s) {
  return s.placement == NormPlacement::kPost || s.placement == NormPlacement::kBoth;
}

/* Declares the parameters of the block, in the order in which `run_attention` reads them. */
inline void declare_attention(DecoderParameters& p, const DecoderSpec& s, const DecoderLayer& l) {
  const DecoderAttention& a = l.attention;
  const DecoderNames& n = s.names;
  const int64_t D = s.width;
  const int64_t q_width = a.num_heads * a.head_width;
  const int64_t kv_width = a.num_kv_heads * a.head_width;
  const double deviation = s.initializer_range;
  if (has_norm_before(s)) {
    p.norm(n.attention_norm, D, s.norm);
  }
  int64_t value_width = q_width;
  if (a.latent.has_value()) {
    const LatentAttention& c = *a.latent;
    value_width = a.num_heads * c.value;
    if (c.query_rank > 0) {
      p.matrix(n.query_down, {c.query_rank, D, 0, 0, deviation});
      if (c.has_bias) {
        p.bias(n.query_down, c.query_rank, 0);
      }
      p.norm(n.query_down_norm, c.query_rank, NormKind::kRms);
      p.matrix(n.query_up, {q_width, c.query_rank, 0, a.num_heads, deviation});
    } else {
      p.matrix(n.query, {q_width, D, 0, a.num_heads, deviation});
    }
    p.matrix(n.kv_down, {c.kv_rank + c.rotated, D, 0, 0, deviation});
    if (c.has_bias) {
      p.bias(n.kv_down, c.kv_rank + c.rotated, 0);
    }
    p.norm(n.kv_down_norm, c.kv_rank, NormKind::kRms);
    p.matrix(n.kv_up, {a.num_heads * (c.plain + c.value), c.kv_rank, 0, a.num_heads, deviation});
  } else if (a.is_fused) {
    const Split split = {
        0, {q_width, kv_width, kv_width}, {a.num_heads, a.num_kv_heads, a.num_kv_heads}};
    DecoderMatrix fused{q_width + 2 * kv_width, D, 0, 0, deviation};
    fused.split = split;
    p.matrix(n.query, fused);
    if (a.qkv_bias) {
      p.bias(n.query, fused.out, split);
    }
  } else {
    const std::string& joined = n.joined_qkv;
    const int64_t after_keys = joined.empty() ? 0 : q_width + kv_width;
    const int64_t after_queries = joined.empty() ? 0 : q_width;
    p.matrix(n.query, {q_width, D, 0, a.num_heads, deviation, joined, 0});
    p.matrix(n.key, {kv_width, D, 0, a.num_kv_heads, deviation, joined, after_queries});
    p.matrix(n.value, {kv_width, D, 0, a.num_kv_heads, deviation, joined, after_keys});
    if (a.qkv_bias) {
      p.bias(n.query, q_width, a.num_heads);
      p.bias(n.key, kv_width, a.num_kv_heads);
      p.bias(n.value, kv_width, a.num_kv_heads);
    }
    if (a.qk_norm == QueryKeyNorm::kWidth) {
      p.norm(n.query_norm, q_width, s.norm, {0, {q_width}, {a.num_heads}});
      p.norm(n.key_norm, kv_width, s.norm, {0, {kv_width}, {a.num_kv_heads}});
    } else if (a.qk_norm == QueryKeyNorm::kHead) {
      p.norm(n.query_norm, a.head_width, s.norm, {}, TENON_PARAM_INSIDE);
      p.norm(n.key_norm, a.head_width, s.norm, {}, TENON_PARAM_INSIDE);
    }
  }
  p.matrix(n.output, {D, value_width, 1, a.num_heads, s.residual_initializer_range});
  if (a.output_bias) {
    p.bias(n.output, D, 0);
  }
  if (has_norm_after(s)) {
    p.norm(n.after_attention_norm, D, s.norm);
  }
}

/* The optional inputs of an attention block, after the hidden state. */
struct AttentionInputs {
  ops::OptionalTensor segment_ids;  /* [B, T] */
  ops::OptionalTensor position_ids; /* [B, T] */
};
inline AttentionInputs attention_inputs(const BlockCall& b) {
  AttentionInputs in;
  if (b.has_input(1)) {
    in.segment_ids = b.input(1);
  }
  if (b.has_input(2)) {
    in.position_ids = b.input(2);
  }
  return in;
}

/* The rotary table for a sequence of `length` positions: with longrope, one of two. */
inline at::Tensor rotary_of(const RotaryTable& table, const at::Tensor& buffer, int64_t length) {
  if (!table.is_long()) {
    return buffer;
  }
  return buffer.narrow(0, length > table.scaling->original_max_position_embeddings ? 2 : 0, 2);
}

/* Queries, keys and values by head, before the rotation, which is of the first features. */
struct AttentionHeads {
  at::Tensor query_BTHE;
  at::Tensor key_BTKE;
  at::Tensor value_BTKE;
};

namespace internal {

/* Neighboring pairs to pairs that are half of the features apart. */
inline at::Tensor deinterleaved(const at::Tensor& x) {
  return x.unflatten(-1, {x.size(-1) / 2, 2}).transpose(-1, -2).flatten(-2);
}

/* The rotated features come first. Scores do not depend on the order of features. The products that
 * compress and their norms are outside of the divided region. */
inline AttentionHeads latent_heads(ParameterCursor& p,
                                   const DecoderAttention& a,
                                   const at::Tensor& x_BTD) {
  const LatentAttention& c = *a.latent;
  at::Tensor q;
  if (c.query_rank > 0) {
    const at::Tensor& down = p.take();
    const at::Tensor compressed = ops::linear(x_BTD, {down}, p.take_if(c.has_bias));
    const at::Tensor normed = ops::tensor_in(p.norm(NormKind::kRms, c.norm_eps, compressed));
    q = ops::linear(normed, {p.take()});
  } else {
    q = ops::linear(ops::tensor_in(x_BTD), {p.take()});
  }
  const at::Tensor q_BTHE = q.unflatten(2, {-1, c.plain + c.rotated});
  const at::Tensor& down = p.take();
  const at::Tensor kv = ops::linear(x_BTD, {down}, p.take_if(c.has_bias));
  const at::Tensor normed =
      ops::tensor_in(p.norm(NormKind::kRms, c.norm_eps, kv.narrow(2, 0, c.kv_rank)));
  const at::Tensor up_BTHE = ops::linear(normed, {p.take()}).unflatten(2, {-1, c.plain + c.value});
  at::Tensor q_turned = q_BTHE.narrow(3, c.plain, c.rotated);
  at::Tensor k_turned = ops::tensor_in(kv.narrow(2, c.kv_rank, c.rotated)).unsqueeze(2);
  if (c.interleaved) {
    q_turned = deinterleaved(q_turned);
    k_turned = deinterleaved(k_turned);
  }
  AttentionHeads heads;
  heads.query_BTHE = at::cat({q_turned, q_BTHE.narrow(3, 0, c.plain)}, 3);
  heads.key_BTKE =
      at::cat({k_turned.expand({-1, -1, q_BTHE.size(2), -1}), up_BTHE.narrow(3, 0, c.plain)}, 3);
  heads.value_BTKE = up_BTHE.narrow(3, c.plain, c.value);
  return heads;
}

/* Whether queries, keys and values are one product without norms. */
inline bool is_joined(const DecoderAttention& a) {
  return !a.latent.has_value() && a.qk_norm == QueryKeyNorm::kNone;
}

/* Queries, keys and values as one product, with the heads of this rank. */
struct JoinedHeads {
  at::Tensor qkv; /* [B, T, (H + 2 K) E] */
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
};
inline JoinedHeads joined_qkv(ParameterCursor& p,
                              const DecoderAttention& a,
                              const at::Tensor& x_BTD) {
  const at::Tensor h_BTD = ops::tensor_in(x_BTD);
  const at::Tensor& wq = p.take();
  if (a.is_fused) {
    // A rank with fewer heads than one group has has a key head that it shares.
    const int64_t all = wq.size(0) / a.head_width;
    const int64_t group = a.num_heads / a.num_kv_heads + 2;
    const int64_t keys = all < group ? 1 : all / group;
    return {ops::linear(h_BTD, {wq}, p.take_if(a.qkv_bias)), all - 2 * keys, keys};
  }
  const at::Tensor& wk = p.take();
  const at::Tensor& wv = p.take();
  const int64_t heads = wq.size(0) / a.head_width;
  const int64_t keys = wk.size(0) / a.head_width;
  if (!a.qkv_bias) {
    return {ops::linear(h_BTD, {wq, wk, wv}), heads, keys};
  }
  const at::Tensor& bq = p.take();
  const at::Tensor& bk = p.take();
  return {ops::linear(h_BTD, {wq, wk, wv}, at::cat({bq, bk, p.take()})), heads, keys};
}

inline AttentionHeads heads_of(ParameterCursor& p,
                               const DecoderSpec& s,
                               const DecoderAttention& a,
                               const at::Tensor& x_BTD) {
  if (a.latent.has_value()) {
    return latent_heads(p, a, x_BTD);
  }
  AttentionHeads heads;
  if (is_joined(a)) {
    const JoinedHeads joined = joined_qkv(p, a, x_BTD);
    const at::Tensor all = joined.qkv.unflatten(2, {-1, a.head_width});
    heads.query_BTHE = all.narrow(2, 0, joined.num_heads);
    heads.key_BTKE = all.narrow(2, joined.num_heads, joined.num_kv_heads);
    heads.value_BTKE = all.narrow(2, joined.num_heads + joined.num_kv_heads, joined.num_kv_heads);
    return heads;
  }
  const at::Tensor h_BTD = ops::tensor_in(x_BTD);
  // Apart, so that each norm reads dense rows.
  const at::Tensor& wq = p.take();
  const at::Tensor& wk = p.take();
  const at::Tensor& wv = p.take();
  const ops::OptionalTensor bq = p.take_if(a.qkv_bias);
  const ops::OptionalTensor bk = p.take_if(a.qkv_bias);
  const ops::OptionalTensor bv = p.take_if(a.qkv_bias);
  const auto normed = [&](const at::Tensor& of, int64_t num_heads) {
    const int64_t E = a.head_width;
    return a.qk_norm == QueryKeyNorm::kWidth
               ? p.norm_over(s.norm, s.norm_eps, of, num_heads * E).unflatten(2, {-1, E})
               : p.norm(s.norm, s.norm_eps, of.unflatten(2, {-1, E}));
  };
  heads.query_BTHE = normed(ops::linear(h_BTD, {wq}, bq), a.num_heads);
  heads.key_BTKE = normed(ops::linear(h_BTD, {wk}, bk), a.num_kv_heads);
  heads.value_BTKE = ops::linear(h_BTD, {wv}, bv).unflatten(2, {-1, a.head_width});
  return heads;
}

/* x weight^T + bias, out of the divided region, for a weight of which ranks divide the `whole`
 * columns. */
inline at::Tensor linear_out(const at::Tensor& x,
                             const at::Tensor& weight,
                             const ops::OptionalTensor& bias,
                             int64_t whole) {
  if (weight.size(1) == whole) {
    return ops::tensor_out(ops::linear(x, {weight}, bias));
  }
  const at::Tensor y = ops::tensor_out(ops::linear(x, {weight}));
  return bias.has_value() ? y + bias->to(y.scalar_type()) : y;
}

inline at::Tensor normed_before(ParameterCursor& p, const DecoderSpec& s, const at::Tensor& x) {
  return has_norm_before(s) ? p.norm(s.norm, s.norm_eps, x) : x;
}
inline at::Tensor normed_after(ParameterCursor& p, const DecoderSpec& s, const at::Tensor& y) {
  return has_norm_after(s) ? p.norm(s.norm, s.norm_eps, y) : y;
}

}  // namespace internal

/* Width of the values of all heads. */
inline int64_t value_width(const DecoderAttention& a) {
  return a.num_heads * (a.latent.has_value() ? a.latent->value : a.head_width);
}

/* What queries see, without rotation and segments. */
inline ops::Attention attention_options(const DecoderAttention& a) {
  ops::Attention o;
  o.window = a.window;
  o.softcap = a.softcap;
  o.scale = a.scale;
  return o;
}

/* Runs the block: x to x + f(norm(x)).
 *
 * Shapes   inputs: x [B, T, D], segment_ids and position_ids [B, T] or absent; buffer 0: the rotary
 *          table, if the layer has one; the result is [B, T, D] */
inline at::Tensor run_attention(const BlockCall& b, const DecoderSpec& s, const DecoderLayer& l) {
  const DecoderAttention& a = l.attention;
  const at::Tensor& x_BTD = b.input(0);
  AttentionInputs in = attention_inputs(b);
  if (in.segment_ids.has_value()) {
    in.segment_ids = ops::tensor_in(*in.segment_ids);
  }
  if (in.position_ids.has_value()) {
    in.position_ids = ops::tensor_in(*in.position_ids);
  }
  ParameterCursor p(b);
  ops::Attention o = attention_options(a);
  o.segments = in.segment_ids;
  o.dropout = b.is_train() ? s.attention_dropout : 0.0;
  if (a.rotary.has_value()) {
    const RotaryTable& table = s.rotaries[*a.rotary];
    int64_t length = x_BTD.size(1);
    if (table.is_long() && in.position_ids.has_value() && in.position_ids->numel() > 0) {
      length = in.position_ids->max().item<int64_t>() + 1;
    }
    o.rotary = rotary_of(table, b.buffer(0), length);
    o.positions = in.position_ids;
  }
  const at::Tensor normed = internal::normed_before(p, s, x_BTD);
  at::Tensor attended;
  if (internal::is_joined(a)) {
    const internal::JoinedHeads heads = internal::joined_qkv(p, a, normed);
    attended = ops::packed_attention(heads.qkv, heads.num_heads, heads.num_kv_heads, o);
  } else {
    const AttentionHeads heads = internal::heads_of(p, s, a, normed);
    attended = ops::attention(heads.query_BTHE, heads.key_BTKE, heads.value_BTKE, o).flatten(2);
  }
  const at::Tensor& output = p.take();
  const at::Tensor y =
      internal::linear_out(attended, output, p.take_if(a.output_bias), value_width(a));
  return x_BTD + internal::normed_after(p, s, dropped(b, y, s.residual_dropout));
}

TENON_NAMESPACE_END

#endif
