// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/local_attention.hpp"

#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/kept_attention.hpp"
#include "host/kernels/own_attention.hpp"
#include "host/kernels/plain_attention.hpp"
#include "host/kernels/rope.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <utility>

namespace tenon {
namespace {

class HeadAttention : public torch::autograd::Function<HeadAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& query,
                            const at::Tensor& key,
                            const at::Tensor& value,
                            const OwnAttentionOptions& o) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor q = dense_rows(query);
    const at::Tensor k = dense_rows(key);
    const at::Tensor v = dense_rows(value);
    const AttentionResult result = attention_result(q.sizes(), [&] {
      at::Tensor made = at::empty(q.sizes(), q.options());
      at::Tensor of_scores = own_attention_into(made, q, k, v, o);
      return AttentionResult{.y = std::move(made), .sums = std::move(of_scores)};
    });
    context->save_for_backward({q, k, v, result.y, result.sums, o.table, o.positions, o.starts});
    save_own_options(context, o);
    return result.y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("attention", "aten::matmul and aten::softmax");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor& k = saved[1];
    const at::Tensor& v = saved[2];
    const OwnAttentionOptions o = saved_own_options(context, saved[5], saved[6], saved[7]);
    const QkvGrads out{at::empty(q.sizes(), q.options()),
                       at::empty(k.sizes(), k.options()),
                       at::empty(v.sizes(), v.options())};
    own_attention_backward_into(out, {q, k, v, saved[3], saved[4]}, o, grads[0]);
    return {out.q, out.k, out.v, at::Tensor()};
  }
};

// Views of queries, keys and values in [B, T, (H + 2 K) E].
QkvGrads parts_of(const at::Tensor& qkv, int64_t num_heads, int64_t num_kv_heads) {
  const int64_t heads = num_heads + 2 * num_kv_heads;
  const at::Tensor all = qkv.unflatten(2, {heads, qkv.size(2) / heads});
  return {all.narrow(2, 0, num_heads),
          all.narrow(2, num_heads, num_kv_heads),
          all.narrow(2, num_heads + num_kv_heads, num_kv_heads)};
}

// As HeadAttention; the gradient is one tensor.
class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& qkv_in,
                            int64_t num_heads,
                            int64_t num_kv_heads,
                            const OwnAttentionOptions& o) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor qkv = dense_rows(qkv_in);
    const auto [q, k, v] = parts_of(qkv, num_heads, num_kv_heads);
    const std::array<int64_t, 3> shape = {q.size(0), q.size(1), num_heads * q.size(3)};
    const at::IntArrayRef head_shape = q.sizes();
    const AttentionResult result = attention_result(shape, [&] {
      at::Tensor made = at::empty(shape, qkv.options());
      at::Tensor of_scores = own_attention_into(made.view(head_shape), q, k, v, o);
      return AttentionResult{.y = std::move(made), .sums = std::move(of_scores)};
    });
    context->save_for_backward({qkv, result.y, result.sums, o.table, o.positions, o.starts});
    context->saved_data["heads"] = num_heads;
    context->saved_data["kv_heads"] = num_kv_heads;
    save_own_options(context, o);
    return result.y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("packed_attention", "aten::matmul and aten::softmax");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const int64_t num_heads = context->saved_data["heads"].toInt();
    const int64_t num_kv_heads = context->saved_data["kv_heads"].toInt();
    const OwnAttentionOptions o = saved_own_options(context, saved[3], saved[4], saved[5]);
    const auto [q, k, v] = parts_of(saved[0], num_heads, num_kv_heads);
    const at::Tensor out = at::empty(saved[0].sizes(), saved[0].options());
    own_attention_backward_into(parts_of(out, num_heads, num_kv_heads),
                                {q, k, v, saved[1].view(q.sizes()), saved[2]},
                                o,
                                dense_rows(grads[0]).unflatten(2, {num_heads, q.size(3)}));
    return {out, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

bool has_kernel(const at::Tensor& q,
                const at::Tensor& k,
                const at::Tensor& v,
                const AttentionOptions& o) {
  return o.dropout == 0.0 && is_fused("attention", q) && is_fused("attention", k) &&
         is_fused("attention", v);
}

// Whether has_kernel is true for tensors like the query on this device.
bool can_keep(const at::Tensor& query, const AttentionOptions& o, at::Device device) {
  return o.dropout == 0.0 && is_fused("attention", query.scalar_type(), device);
}

at::Tensor rotated_plain_attention(const at::Tensor& query,
                                   const at::Tensor& key,
                                   const at::Tensor& value,
                                   const AttentionOptions& o) {
  const auto turned = [&o](const at::Tensor& x) {
    return o.rotary ? rope(x, *o.rotary, o.positions) : x;
  };
  return plain_attention(turned(query), turned(key), value, o, /*first=*/0);
}

}  // namespace

void check_attention(const at::Tensor& q,
                     const at::Tensor& k,
                     const at::Tensor& v,
                     const AttentionOptions& o) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(0) == k.size(0) &&
                  v.sizes().slice(0, 3) == k.sizes().slice(0, 3) && q.size(3) == k.size(3) &&
                  v.size(3) <= k.size(3) && k.size(2) > 0 && q.size(2) % k.size(2) == 0,
              "tenon::attention: query ",
              q.sizes(),
              ", key ",
              k.sizes(),
              " and value ",
              v.sizes(),
              " must be [B, T, H, E], [B, S, K, E] and [B, S, K, at most E], where K divides H");
  const bool is_aligned = o.is_causal || o.rotary.has_value();
  TORCH_CHECK(!is_aligned || q.size(1) == k.size(1),
              "tenon::attention: a causal mask or a rotation needs as many keys as queries, not ",
              k.size(1),
              " and ",
              q.size(1));
  TORCH_CHECK(o.is_causal || (o.window == 0 && !o.segments.has_value()),
              "tenon::attention: a window or segments need a causal mask");
  TORCH_CHECK(o.window >= 0 && o.softcap >= 0 && o.dropout >= 0 && o.dropout < 1,
              "tenon::attention: window ",
              o.window,
              " and softcap ",
              o.softcap,
              " must not be negative, and dropout ",
              o.dropout,
              " must be in [0, 1)");
  TORCH_CHECK(!o.rotary || (o.rotary->dim() == 3 && o.rotary->size(0) == 2 &&
                            (o.positions || o.rotary->size(1) >= q.size(1)) &&
                            2 * o.rotary->size(2) <= q.size(3)),
              "tenon::attention: rotary ",
              o.rotary->sizes(),
              " must be [2, at least T, at most E/2] of the query ",
              q.sizes());
  TORCH_CHECK(!o.positions || o.rotary.has_value(),
              "tenon::attention: positions need a rotation (rotary)");
  TORCH_CHECK(!o.segments || (o.segments->dim() == 2 && o.segments->size(0) == q.size(0) &&
                              o.segments->size(1) == q.size(1) &&
                              at::isIntegralType(o.segments->scalar_type(), /*includeBool=*/true)),
              "tenon::attention: segments ",
              o.segments->sizes(),
              " of ",
              o.segments->scalar_type(),
              " must be [B, T] of the query ",
              q.sizes(),
              ", integers");
}

at::Tensor local_attention(const at::Tensor& query,
                           const at::Tensor& key,
                           const at::Tensor& value,
                           const AttentionOptions& options) {
  const auto keeps = [&](at::Device device) { return can_keep(query, options, device); };
  if (count_attention(query, keeps)) {
    return at::empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.options());
  }
  if (has_kernel(query, key, value, options)) {
    // The kernels want values as wide as keys.
    const int64_t missing = key.size(3) - value.size(3);
    const at::Tensor wide = missing > 0 ? at::constant_pad_nd(value, {0, missing}) : value;
    const at::Tensor y = HeadAttention::apply(
        query, key, wide, own_attention_options(options, query, query.size(1), 0));
    return missing > 0 ? y.narrow(3, 0, value.size(3)) : y;
  }
  return rotated_plain_attention(query, key, value, options);
}

at::Tensor local_packed_attention(const at::Tensor& qkv,
                                  int64_t num_heads,
                                  int64_t num_kv_heads,
                                  const AttentionOptions& options) {
  const auto [q, k, v] = parts_of(qkv, num_heads, num_kv_heads);
  check_attention(q, k, v, options);
  const at::Tensor& query = q;
  const auto keeps = [&](at::Device device) { return can_keep(query, options, device); };
  if (count_attention(query, keeps)) {
    return at::empty({query.size(0), query.size(1), query.size(2) * v.size(3)}, query.options());
  }
  if (has_kernel(qkv, qkv, qkv, options)) {
    return PackedAttention::apply(
        qkv, num_heads, num_kv_heads, own_attention_options(options, q, q.size(1), 0));
  }
  // A view of the values would keep all of qkv for the backward.
  return rotated_plain_attention(q, k, v.contiguous(), options).flatten(2);
}

}  // namespace tenon
