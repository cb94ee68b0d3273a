// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions and causal attention in fp32 on a CPU, from the concatenated query, key and
// value projections, [B, T, (H + 2 K) E]. Backward recomputes the weights; forward saves one number
// per query.
//
// Source: Su et al., RoFormer (2021), equation 34, with halves instead of pairs, as in Hugging
// Face's code; Vaswani et al., Attention Is All You Need (2017), equation 1; Dao et al.,
// FlashAttention (2022), algorithm 4, for the backward.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <vector>

#include "attention_heads.hpp"

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
    at::Tensor y = at::empty({s.B, s.T, s.H * s.E}, qkv.options());
    at::Tensor sums = at::empty({s.B, s.H, s.T}, qkv.options());
    const AttentionInput in{s, qkv.const_data_ptr<float>(), table.const_data_ptr<float>()};
    float* const y_data = y.mutable_data_ptr<float>();
    float* const sums_data = sums.mutable_data_ptr<float>();
    at::parallel_for(0, s.B * s.K, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(static_cast<size_t>(attention_scratch(s)));
      for (int64_t group = begin; group < end; ++group) {
        attend_group(in, group, y_data, sums_data, scratch.data());
      }
    });
    context->save_for_backward({qkv, table, sums});
    context->saved_data["heads"] = num_heads;
    context->saved_data["kv_heads"] = num_kv_heads;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const at::Tensor g = grads[0].contiguous();
    const int64_t num_heads = context->saved_data["heads"].toInt();
    const int64_t num_kv_heads = context->saved_data["kv_heads"].toInt();
    const AttentionSizes s{qkv.size(0),
                           qkv.size(1),
                           num_heads,
                           num_kv_heads,
                           qkv.size(2) / (num_heads + 2 * num_kv_heads)};
    const AttentionInput in{s, qkv.const_data_ptr<float>(), saved[1].const_data_ptr<float>()};
    const float* const sums_data = saved[2].const_data_ptr<float>();
    const float* const g_data = g.const_data_ptr<float>();
    at::Tensor out = at::empty_like(qkv);
    float* const out_data = out.mutable_data_ptr<float>();
    at::parallel_for(0, s.B * s.K, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(static_cast<size_t>(attention_scratch(s)));
      for (int64_t group = begin; group < end; ++group) {
        attend_group_backward(in, group, sums_data, g_data, out_data, scratch.data());
      }
    });
    return {out, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};
