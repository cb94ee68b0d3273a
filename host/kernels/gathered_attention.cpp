// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/gathered_attention.hpp"

#include "host/kernels/kept_attention.hpp"
#include "host/kernels/own_attention.hpp"
#include "host/kernels/plain_attention.hpp"
#include "host/kernels/saved_parts.hpp"
#include "host/kernels/sequence_exchange.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::string_view kKeysSent = "keys of attention";
constexpr std::string_view kGradsSent = "gradients of attention's keys";

struct WholeKeys {
  at::Tensor k_BSKE;
  at::Tensor v_BSKE;  // as wide as keys
};

WholeKeys gather_keys(const at::Tensor& k, const at::Tensor& v, const SequenceParts& parts) {
  const std::vector<at::Tensor> whole = gather_positions({k, v}, parts, kKeysSent);
  const int64_t missing = k.size(3) - v.size(3);
  return {whole[0], missing > 0 ? at::constant_pad_nd(whole[1], {0, missing}) : whole[1]};
}

class OwnGathered : public torch::autograd::Function<OwnGathered> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& query,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const OwnAttentionOptions& o,
                            const SequenceParts* parts) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor q = dense_rows(query);
    const AttentionResult result = attention_result(q.sizes(), [&] {
      const WholeKeys keys = gather_keys(k, v, *parts);
      at::Tensor made = at::empty(q.sizes(), q.options());
      at::Tensor sums = q.numel() == 0 ? at::empty({q.size(0), q.size(2), q.size(1)}, q.options())
                                       : own_attention_into(made, q, keys.k_BSKE, keys.v_BSKE, o);
      return AttentionResult{.y = std::move(made), .sums = std::move(sums)};
    });
    context->save_for_backward({q, k, v, result.y, result.sums, o.table, o.positions, o.starts});
    save_own_options(context, o);
    save_parts(context, parts);
    return result.y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SequenceParts& parts = saved_parts(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const OwnAttentionOptions o = saved_own_options(context, saved[5], saved[6], saved[7]);
    const WholeKeys keys = gather_keys(saved[1], saved[2], parts);
    const QkvGrads out{at::empty(q.sizes(), q.options()),
                       at::empty(keys.k_BSKE.sizes(), q.options()),
                       at::empty(keys.v_BSKE.sizes(), q.options())};
    if (q.numel() > 0) {
      own_attention_backward_into(
          out, {q, keys.k_BSKE, keys.v_BSKE, saved[3], saved[4]}, o, grads[0]);
    }
    const std::vector<at::Tensor> sums =
        sum_positions({out.k, out.v.narrow(3, 0, saved[2].size(3))}, parts, kGradsSent);
    return {out.q, sums[0], sums[1], at::Tensor(), at::Tensor()};
  }
};

class GatherKeys : public torch::autograd::Function<GatherKeys> {
 public:
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& k,
                               const at::Tensor& v,
                               const SequenceParts* parts) {
    const at::AutoDispatchBelowADInplaceOrView below;
    save_parts(context, parts);
    return gather_positions({k, v}, *parts, kKeysSent);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list sums = sum_positions(grads, saved_parts(context), kGradsSent);
    sums.emplace_back();
    return sums;
  }
};

// Without queries, but connected to keys and values: all ranks run the backward.
at::Tensor empty_attention(const at::Tensor& q_BTHE,
                           const at::Tensor& k_BSKE,
                           const at::Tensor& v_BSKV) {
  const int64_t group = q_BTHE.size(2) / k_BSKE.size(2);
  const auto turned = [group](const at::Tensor& x) {
    return x.repeat_interleave(group, 2).transpose(1, 2);
  };
  const at::Tensor scores = at::matmul(q_BTHE.transpose(1, 2), turned(k_BSKE).transpose(2, 3));
  return at::matmul(scores, turned(v_BSKV)).transpose(1, 2);
}

}  // namespace

at::Tensor own_gathered_attention(const at::Tensor& query_BTHE,
                                  const at::Tensor& key_BTKE,
                                  const at::Tensor& value_BTKV,
                                  const AttentionOptions& options,
                                  const SequenceParts& parts) {
  const OwnAttentionOptions own =
      own_attention_options(options, query_BTHE, parts.whole(), parts.begin());
  return OwnGathered::apply(query_BTHE, key_BTKE, value_BTKV, own, &parts)
      .narrow(3, 0, value_BTKV.size(3));
}

at::Tensor plain_gathered_attention(const at::Tensor& query_BTHE,
                                    const at::Tensor& key_BTKE,
                                    const at::Tensor& value_BTKV,
                                    const AttentionOptions& options,
                                    const SequenceParts& parts) {
  const variable_list whole = GatherKeys::apply(key_BTKE, value_BTKV, &parts);
  return query_BTHE.numel() == 0
             ? empty_attention(query_BTHE, whole[0], whole[1])
             : plain_attention(query_BTHE, whole[0], whole[1], options, parts.begin());
}

}  // namespace tenon
