// SPDX-License-Identifier: Apache-2.0
//
// Layers of decoders with a divided region, as a plugin would write them from shapes, and what it
// declares of their parameters. Letters: those of tenon/torch/ops.hpp.
#pragma once

#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon {

struct LayerParameter {
  std::string name;
  std::vector<int64_t> shape;
  int64_t axis = -1;  // of the split; -1: none
  std::vector<int64_t> parts = {};
  std::vector<int64_t> units = {};
  bool is_inside = false;
  bool is_norm = false;
};

enum class QkNorm { kNone, kHead, kWidth };

struct LayerOptions {
  std::string name;
  int64_t D = 16, H = 12, K = 2, E = 4, F = 24;
  QkNorm norm = QkNorm::kNone;
  bool is_fused = false;
  bool is_gated = true;
  bool is_latent = false;
};

using Parameters = std::map<std::string, at::Tensor>;

constexpr double kLayerEps = 1e-5;
constexpr int64_t kLatentWidth = 6;
constexpr int64_t kLatentPlain = 2;
constexpr int64_t kLatentRotated = 2;

inline LayerParameter by_rows(std::string name,
                              std::vector<int64_t> shape,
                              std::vector<int64_t> parts,
                              std::vector<int64_t> units) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .axis = 0,
          .parts = std::move(parts),
          .units = std::move(units)};
}

inline std::vector<LayerParameter> qkv_parameters(const LayerOptions& o) {
  const int64_t q = o.H * o.E;
  const int64_t k = o.K * o.E;
  if (o.is_latent) {  // enters behind the narrow products
    const int64_t of_query = o.H * (kLatentPlain + kLatentRotated);
    const int64_t of_key = o.H * (kLatentPlain + o.E);
    return {{.name = "kv_down", .shape = {kLatentWidth + kLatentRotated, o.D}},
            {.name = "kv_norm", .shape = {kLatentWidth}, .is_norm = true},
            by_rows("q", {of_query, o.D}, {of_query}, {o.H}),
            by_rows("kv_up", {of_key, kLatentWidth}, {of_key}, {o.H})};
  }
  if (o.is_fused) {
    return {by_rows("qkv", {q + 2 * k, o.D}, {q, k, k}, {o.H, o.K, o.K}),
            by_rows("qkv_bias", {q + 2 * k}, {q, k, k}, {o.H, o.K, o.K})};
  }
  std::vector<LayerParameter> all = {by_rows("q", {q, o.D}, {q}, {o.H}),
                                     by_rows("k", {k, o.D}, {k}, {o.K}),
                                     by_rows("v", {k, o.D}, {k}, {o.K}),
                                     by_rows("q_bias", {q}, {q}, {o.H}),
                                     by_rows("k_bias", {k}, {k}, {o.K}),
                                     by_rows("v_bias", {k}, {k}, {o.K})};
  if (o.norm == QkNorm::kHead) {
    all.push_back({.name = "q_norm", .shape = {o.E}, .is_inside = true, .is_norm = true});
    all.push_back({.name = "k_norm", .shape = {o.E}, .is_inside = true, .is_norm = true});
  } else if (o.norm == QkNorm::kWidth) {
    all.push_back(by_rows("q_norm", {q}, {q}, {o.H}));
    all.push_back(by_rows("k_norm", {k}, {k}, {o.K}));
  }
  return all;
}

inline std::vector<LayerParameter> layer_parameters(const LayerOptions& o) {
  std::vector<LayerParameter> all = qkv_parameters(o);
  const auto by_columns = [&](const char* name, int64_t n, int64_t units) {
    all.push_back({.name = name, .shape = {o.D, n}, .axis = 1, .parts = {n}, .units = {units}});
  };
  all.push_back({.name = "norm1", .shape = {o.D}, .is_norm = true});
  all.push_back({.name = "norm2", .shape = {o.D}, .is_norm = true});
  by_columns("out", o.H * o.E, o.H);
  all.push_back({.name = "out_bias", .shape = {o.D}});
  all.push_back(by_rows("up", {o.F, o.D}, {o.F}, {o.F}));
  by_columns("down", o.F, o.F);
  if (o.is_gated) {
    all.push_back(by_rows("gate", {o.F, o.D}, {o.F}, {o.F}));
  } else {
    all.push_back(by_rows("up_bias", {o.F}, {o.F}, {o.F}));
    all.push_back({.name = "down_bias", .shape = {o.D}});
  }
  return all;
}

struct LayerInputs {
  at::Tensor x_BTD;
  at::Tensor positions_BT;
  at::Tensor segments_BT;
  at::Tensor table;  // [2, P, E/2]
};

// The rms norm over a divided last axis of `width` elements.
inline at::Tensor wide_norm(const at::Tensor& x, const at::Tensor& weight, int64_t width) {
  const at::Tensor squares = ops::sum_over(x.square().sum(-1, true), x.size(-1), width);
  return x * at::rsqrt(squares / static_cast<double>(width) + kLayerEps) * weight;
}

inline at::Tensor latent_attention(const LayerOptions& o,
                                   const Parameters& p,
                                   const at::Tensor& h,
                                   ops::Attention mask) {
  const at::Tensor kv = ops::linear(h, {p.at("kv_down")});
  const at::Tensor latent =
      ops::rms_norm(kv.narrow(2, 0, kLatentWidth), p.at("kv_norm"), kLayerEps);
  // The key that all heads share enters too.
  const at::Tensor in =
      ops::tensor_in(at::cat({latent, kv.narrow(2, kLatentWidth, kLatentRotated)}, 2));
  const at::Tensor up = ops::linear(in.narrow(2, 0, kLatentWidth), {p.at("kv_up")})
                            .unflatten(2, {-1, kLatentPlain + o.E});
  const at::Tensor q =
      ops::linear(ops::tensor_in(h), {p.at("q")}).unflatten(2, {-1, kLatentRotated + kLatentPlain});
  const at::Tensor shared =
      in.narrow(2, kLatentWidth, kLatentRotated).unsqueeze(2).expand({-1, -1, q.size(2), -1});
  const at::Tensor k = at::cat({shared, up.narrow(3, 0, kLatentPlain)}, 3);
  mask.rotary = mask.rotary->narrow(2, 0, kLatentRotated / 2);
  return ops::attention(q, k, up.narrow(3, kLatentPlain, o.E), mask).flatten(2);
}

inline at::Tensor head_attention(const LayerOptions& o,
                                 const Parameters& p,
                                 const at::Tensor& h,
                                 const ops::Attention& mask) {
  if (o.is_fused) {
    const at::Tensor qkv = ops::linear(h, {p.at("qkv")}, p.at("qkv_bias"));
    const int64_t heads = qkv.size(2) / o.E;
    const int64_t group = o.H / o.K;
    const int64_t kv_heads = heads < group + 2 ? 1 : heads / (group + 2);
    return ops::packed_attention(qkv, heads - 2 * kv_heads, kv_heads, mask);
  }
  at::Tensor q = ops::linear(h, {p.at("q")}, p.at("q_bias"));
  at::Tensor k = ops::linear(h, {p.at("k")}, p.at("k_bias"));
  const at::Tensor v = ops::linear(h, {p.at("v")}, p.at("v_bias")).unflatten(2, {-1, o.E});
  if (o.norm == QkNorm::kWidth) {
    q = wide_norm(q, p.at("q_norm"), o.H * o.E);
    k = wide_norm(k, p.at("k_norm"), o.K * o.E);
  }
  q = q.unflatten(2, {-1, o.E});
  k = k.unflatten(2, {-1, o.E});
  if (o.norm == QkNorm::kHead) {
    q = ops::rms_norm(q, p.at("q_norm"), kLayerEps);
    k = ops::rms_norm(k, p.at("k_norm"), kLayerEps);
  }
  return ops::attention(q, k, v, mask).flatten(2);
}

inline at::Tensor attention_half(const LayerOptions& o,
                                 const Parameters& p,
                                 const LayerInputs& in) {
  const at::Tensor h = ops::rms_norm(in.x_BTD, p.at("norm1"), kLayerEps);
  ops::Attention mask;
  mask.rotary = in.table;
  mask.positions = ops::tensor_in(in.positions_BT);
  mask.segments = ops::tensor_in(in.segments_BT);
  const at::Tensor a =
      o.is_latent ? latent_attention(o, p, h, mask) : head_attention(o, p, ops::tensor_in(h), mask);
  return in.x_BTD + ops::tensor_out(ops::linear(a, {p.at("out")})) + p.at("out_bias");
}

inline at::Tensor gated_half(const Parameters& p, const at::Tensor& x) {
  const at::Tensor h = ops::tensor_in(ops::rms_norm(x, p.at("norm2"), kLayerEps));
  return x + ops::tensor_out(ops::gated_mlp(h, p.at("gate"), p.at("up"), p.at("down")));
}

inline at::Tensor gelu_half(const Parameters& p, const at::Tensor& x) {
  const at::Tensor h = ops::tensor_in(ops::rms_norm(x, p.at("norm2"), kLayerEps));
  // The bias of rows has their split; the bias of the whole output has none.
  const at::Tensor up = ops::linear(h, {p.at("up")}, p.at("up_bias"), "gelu");
  return x + ops::tensor_out(ops::linear(up, {p.at("down")})) + p.at("down_bias");
}

// Attention and a feed-forward layer with residuals: [B, T, D].
inline at::Tensor decoder_layer(const LayerOptions& o, const Parameters& p, const LayerInputs& in) {
  const at::Tensor x = attention_half(o, p, in);
  return o.is_gated ? gated_half(p, x) : gelu_half(p, x);
}

}  // namespace tenon
