// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions and causal attention for short sequences in fp32 on a CPU, from the joined
// outputs of the query, key and value products, [B, T, (H + 2 K) E]. Scores are whole matrices,
// which for short sequences is faster than going by tiles and costs B H T T numbers; query heads
// that share keys are rows of one product, so that keys are not repeated.
//
// Source: Su et al., RoFormer (2021), equation 34, with halves instead of pairs as Hugging Face has
// it; Vaswani et al., Attention Is All You Need (2017), equation 1.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "simd.hpp"

// Up to this length, scores are whole matrices.
inline constexpr int64_t kShortSequence = 256;

struct AttentionSizes {
  int64_t B = 0;
  int64_t T = 0;
  int64_t H = 0;  // query heads
  int64_t K = 0;  // key and value heads
  int64_t E = 0;  // width of a head
};

// Turns one head by its position: (a, b) -> (a cos - b sin, b cos + a sin), times `scale`. `sign`
// -1 turns it back.
LLAMA_SIMD static void rotate_head(const float* in,
                                   float* out,
                                   const float* cos,
                                   const float* sin,
                                   int64_t half,
                                   float scale,
                                   float sign) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = in[i];
    const float b = in[half + i];
    const float s = sin[i] * sign;
    out[i] = (a * cos[i] - b * s) * scale;
    out[half + i] = (b * cos[i] + a * s) * scale;
  }
}

class CpuAttention : public torch::autograd::Function<CpuAttention> {
 public:
  // `table` is [2, T, E/2]: cos and sin. Returns [B, T, H E].
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& qkv_in,
                            const at::Tensor& table_in,
                            int64_t num_heads,
                            int64_t num_kv_heads) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor qkv = qkv_in.contiguous();
    const at::Tensor table = table_in.contiguous();
    const AttentionSizes s{qkv.size(0),
                           qkv.size(1),
                           num_heads,
                           num_kv_heads,
                           qkv.size(2) / (num_heads + 2 * num_kv_heads)};
    const int64_t groups = s.B * s.K;
    const int64_t rows = s.H / s.K * s.T;  // of one product: the queries that share a key head
    at::Tensor q = at::empty({groups, rows, s.E}, qkv.options());
    at::Tensor k = at::empty({groups, s.T, s.E}, qkv.options());
    at::Tensor v = at::empty({groups, s.T, s.E}, qkv.options());
    split(s,
          qkv.const_data_ptr<float>(),
          table.const_data_ptr<float>(),
          q.mutable_data_ptr<float>(),
          k.mutable_data_ptr<float>(),
          v.mutable_data_ptr<float>());
    at::Tensor scores = at::bmm(q, k.transpose(1, 2));
    hide_future(s, scores.mutable_data_ptr<float>());
    const at::Tensor weights = at::softmax(scores, -1);
    const at::Tensor y = at::bmm(weights, v);
    context->save_for_backward({q, k, v, weights, table});
    context->saved_data["heads"] = num_heads;
    context->saved_data["kv_heads"] = num_kv_heads;
    return y.view({s.B, s.H, s.T, s.E}).transpose(1, 2).reshape({s.B, s.T, s.H * s.E});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor& k = saved[1];
    const at::Tensor& v = saved[2];
    const at::Tensor& weights = saved[3];
    AttentionSizes s{grads[0].size(0),
                     grads[0].size(1),
                     context->saved_data["heads"].toInt(),
                     context->saved_data["kv_heads"].toInt(),
                     q.size(2)};
    const at::Tensor g = grads[0].view({s.B, s.T, s.H, s.E}).transpose(1, 2).reshape(q.sizes());
    const at::Tensor dv = at::bmm(weights.transpose(1, 2), g);
    const at::Tensor dweights = at::bmm(g, v.transpose(1, 2));
    const at::Tensor dscores = at::_softmax_backward_data(dweights, weights, -1, at::kFloat);
    const at::Tensor dq = at::bmm(dscores, k);
    const at::Tensor dk = at::bmm(dscores.transpose(1, 2), q);
    at::Tensor out = at::empty({s.B, s.T, (s.H + 2 * s.K) * s.E}, q.options());
    join(s,
         dq.const_data_ptr<float>(),
         dk.const_data_ptr<float>(),
         dv.const_data_ptr<float>(),
         saved[4].const_data_ptr<float>(),
         out.mutable_data_ptr<float>());
    return {out, at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  static constexpr int64_t kGrain = 64;  // positions

  static float scale(const AttentionSizes& s) { return 1.0f / std::sqrt(static_cast<float>(s.E)); }

  // From [B, T, heads E] to heads first, queries and keys turned; queries carry the scale of the
  // scores.
  static void split(
      const AttentionSizes& s, const float* qkv, const float* table, float* q, float* k, float* v) {
    const int64_t half = s.E / 2;
    at::parallel_for(0, s.B * s.T, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t bt = begin; bt < end; ++bt) {
        const int64_t b = bt / s.T;
        const int64_t t = bt % s.T;
        const float* in = qkv + bt * (s.H + 2 * s.K) * s.E;
        const float* cos = table + t * half;
        const float* sin = cos + s.T * half;
        for (int64_t h = 0; h < s.H; ++h, in += s.E) {
          rotate_head(in, q + ((b * s.H + h) * s.T + t) * s.E, cos, sin, half, scale(s), 1.0f);
        }
        for (int64_t h = 0; h < s.K; ++h, in += s.E) {
          rotate_head(in, k + ((b * s.K + h) * s.T + t) * s.E, cos, sin, half, 1.0f, 1.0f);
        }
        for (int64_t h = 0; h < s.K; ++h, in += s.E) {
          std::copy(in, in + s.E, v + ((b * s.K + h) * s.T + t) * s.E);
        }
      }
    });
  }

  // The way back, for gradients.
  static void join(const AttentionSizes& s,
                   const float* dq,
                   const float* dk,
                   const float* dv,
                   const float* table,
                   float* out) {
    const int64_t half = s.E / 2;
    at::parallel_for(0, s.B * s.T, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t bt = begin; bt < end; ++bt) {
        const int64_t b = bt / s.T;
        const int64_t t = bt % s.T;
        float* to = out + bt * (s.H + 2 * s.K) * s.E;
        const float* cos = table + t * half;
        const float* sin = cos + s.T * half;
        for (int64_t h = 0; h < s.H; ++h, to += s.E) {
          rotate_head(dq + ((b * s.H + h) * s.T + t) * s.E, to, cos, sin, half, scale(s), -1.0f);
        }
        for (int64_t h = 0; h < s.K; ++h, to += s.E) {
          rotate_head(dk + ((b * s.K + h) * s.T + t) * s.E, to, cos, sin, half, 1.0f, -1.0f);
        }
        for (int64_t h = 0; h < s.K; ++h, to += s.E) {
          const float* from = dv + ((b * s.K + h) * s.T + t) * s.E;
          std::copy(from, from + s.E, to);
        }
      }
    });
  }

  // A position sees itself and what is before it.
  static void hide_future(const AttentionSizes& s, float* scores) {
    at::parallel_for(0, s.B * s.H * s.T, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* line = scores + row * s.T;
        std::fill(line + row % s.T + 1, line + s.T, -std::numeric_limits<float>::infinity());
      }
    });
  }
};
