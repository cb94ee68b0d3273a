// SPDX-License-Identifier: Apache-2.0
//
// Attention by Tenon's own kernels (attention_heads.hpp), in fp32 on a CPU: tensors to rows, and
// tasks to threads. Autograd is the caller's. Results have the same bits for any number of threads.
#pragma once

#include "host/kernels/attention_options.hpp"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

namespace tenon {

// What the kernels read besides queries, keys and values.
struct OwnAttentionOptions {
  at::Tensor table;      // cos and sin, [2, P, R/2]; may be undefined
  at::Tensor positions;  // rows of the table, [B, S]; undefined: 0, 1, ...
  at::Tensor starts;     // first visible key of each query, [B, T] or [1, T]; may be undefined
  int64_t first = 0;     // position of query 0 among the keys
  bool is_causal = true;
  double scale = 1.0;
  double softcap = 0.0;
};

// Prepares options whose positions and segments are those of S keys.
//
// Shapes  query_BTHE with first + T <= S, if there is a mask or rotation
// Errors  c10::IndexError for a position outside of the table; c10::Error for positions that are not
//         [B, S], integers
OwnAttentionOptions own_attention_options(const AttentionOptions& options,
                                          const at::Tensor& query_BTHE,
                                          int64_t S,
                                          int64_t first);

// x, or a copy whose last axis is dense. The functions below want such queries, keys, values and
// results, but any other strides.
at::Tensor dense_rows(const at::Tensor& x);

// Writes y_BTHE and returns log(sum(exp(scores))), [B, H, T]. Values are as wide as keys.
at::Tensor own_attention_into(const at::Tensor& y_BTHE,
                              const at::Tensor& q_BTHE,
                              const at::Tensor& k_BSKE,
                              const at::Tensor& v_BSKE,
                              const OwnAttentionOptions& options);

struct QkvGrads {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

// What the forward read and wrote.
struct OwnAttentionCall {
  at::Tensor q_BTHE;
  at::Tensor k_BSKE;
  at::Tensor v_BSKE;
  at::Tensor y_BTHE;
  at::Tensor sums_BHT;
};

// Writes all of the gradients from that of y, which may have any strides.
void own_attention_backward_into(const QkvGrads& grads,
                                 const OwnAttentionCall& call,
                                 const OwnAttentionOptions& options,
                                 const at::Tensor& grad_y_BTHE);

// Keeps the options that are not tensors for a backward, and returns them with the tensors.
void save_own_options(torch::autograd::AutogradContext* context,
                      const OwnAttentionOptions& options);
OwnAttentionOptions saved_own_options(torch::autograd::AutogradContext* context,
                                      const at::Tensor& table,
                                      const at::Tensor& positions,
                                      const at::Tensor& starts);

}  // namespace tenon
