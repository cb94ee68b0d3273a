// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/attention.hpp"

#include "host/kernels/attention_cut.hpp"
#include "host/kernels/attention_heads.hpp"
#include "host/kernels/autocast.hpp"
#include "host/kernels/first_order.hpp"
#include "host/kernels/fused.hpp"
#include "host/kernels/kept_attention.hpp"
#include "host/kernels/rope.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Calls run(task, scratch) for each task. Threads take tasks in order, as they become free.
template <class Run>
void run_tasks(int64_t num_tasks, const AttentionSizes& sizes, const Run& run) {
  constexpr size_t kAlignment = 64;  // a cache line
  std::atomic<int64_t> next = 0;
  const int64_t workers = std::min<int64_t>(num_tasks, at::get_num_threads());
  at::parallel_for(0, workers, 1, [&](int64_t, int64_t) {
    const auto floats = static_cast<size_t>(attention_scratch(sizes));
    std::vector<float> memory(floats + kAlignment / sizeof(float));
    void* aligned = memory.data();
    size_t space = memory.size() * sizeof(float);
    auto* const scratch =
        static_cast<float*>(std::align(kAlignment, floats * sizeof(float), aligned, space));
    for (int64_t task = next++; task < num_tasks; task = next++) {
      run(task, scratch);
    }
  });
}

// What the kernels read besides queries, keys and values. Saved for the backward.
struct KernelOptions {
  at::Tensor table;      // cos and sin, [2, P, R/2]; may be undefined
  at::Tensor positions;  // rows of the table, [B, T]; undefined: 0, 1, ...
  at::Tensor starts;     // first visible key of each query, [B, T] or [1, T]; may be undefined
  bool is_causal = true;
  double scale = 1.0;
  double softcap = 0.0;
};

at::Tensor dense_rows(const at::Tensor& x) {
  return x.stride(-1) == 1 ? x : x.contiguous();
}

HeadRows<const float> rows_of(const at::Tensor& x_BTHE) {
  return {x_BTHE.const_data_ptr<float>(), x_BTHE.stride(0), x_BTHE.stride(1), x_BTHE.stride(2)};
}

HeadRows<float> mutable_rows_of(const at::Tensor& x_BTHE) {
  return {x_BTHE.mutable_data_ptr<float>(), x_BTHE.stride(0), x_BTHE.stride(1), x_BTHE.stride(2)};
}

AttentionInput kernel_input(const at::Tensor& q_BTHE,
                            const at::Tensor& k_BSKE,
                            const at::Tensor& v_BSKE,
                            const KernelOptions& o) {
  AttentionInput in{.sizes = {.B = q_BTHE.size(0),
                              .T = q_BTHE.size(1),
                              .S = k_BSKE.size(1),
                              .H = q_BTHE.size(2),
                              .K = k_BSKE.size(2),
                              .E = q_BTHE.size(3)},
                    .q = rows_of(q_BTHE),
                    .k = rows_of(k_BSKE),
                    .v = rows_of(v_BSKE),
                    .is_causal = o.is_causal,
                    .scale = static_cast<float>(o.scale),
                    .softcap = static_cast<float>(o.softcap)};
  if (o.table.defined()) {
    in.cos = o.table.const_data_ptr<float>();
    in.sin = in.cos + o.table.stride(0);
    in.rotated = 2 * o.table.size(2);
    in.positions = o.positions.defined() ? o.positions.const_data_ptr<int64_t>() : nullptr;
  }
  if (o.starts.defined()) {
    in.starts = o.starts.const_data_ptr<int32_t>();
    in.starts_batch = o.starts.size(0) == 1 ? 0 : o.starts.stride(0);
  }
  return in;
}

// Writes y_BTHE and returns log(sum(exp(scores))), [B, H, T].
at::Tensor attend_into(const at::Tensor& y_BTHE, const AttentionInput& in) {
  const AttentionSizes& s = in.sizes;
  at::Tensor sums = at::empty({s.B, s.H, s.T}, y_BTHE.options());
  const AttentionOutput out{mutable_rows_of(y_BTHE), sums.mutable_data_ptr<float>()};
  run_tasks(
      attention_tasks(s), s, [&](int64_t task, float* scratch) { attend(in, task, out, scratch); });
  return sums;
}

struct QkvGrads {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

// Writes the gradients from y, the saved sums and the gradient of y.
void attend_backward_into(const QkvGrads& grads,
                          const AttentionInput& in,
                          const at::Tensor& y_BTHE,
                          const at::Tensor& sums,
                          const at::Tensor& grad_y_BTHE) {
  const AttentionSizes& s = in.sizes;
  const BackwardTasks cut = backward_tasks(in);
  const at::Tensor g = dense_rows(grad_y_BTHE);
  const auto options = sums.options();
  const at::Tensor more_q = at::empty({cut.key_parts - 1, s.B, s.T, s.H, s.E}, options);
  const at::Tensor more_k = at::empty({cut.head_parts - 1, s.B, s.S, s.K, s.E}, options);
  const at::Tensor more_v = at::empty_like(more_k);
  const auto rows = [](const at::Tensor& first, const at::Tensor& more, int64_t part) {
    return mutable_rows_of(part == 0 ? first : more.select(0, part - 1));
  };
  run_tasks(static_cast<int64_t>(cut.tasks.size()), s, [&](int64_t i, float* scratch) {
    const BackwardTask& task = cut.tasks[static_cast<size_t>(i)];
    attend_backward(in,
                    task.part,
                    {.y = rows_of(y_BTHE),
                     .sums = sums.const_data_ptr<float>(),
                     .grad_y = rows_of(g),
                     .grad_q = rows(grads.q, more_q, task.key_part),
                     .grad_k = rows(grads.k, more_k, task.head_part),
                     .grad_v = rows(grads.v, more_v, task.head_part)},
                    scratch);
  });
  for (const at::Tensor& part : more_q.unbind(0)) {
    grads.q.add_(part);
  }
  for (int64_t i = 0; i < more_k.size(0); ++i) {
    grads.k.add_(more_k[i]);
    grads.v.add_(more_v[i]);
  }
}

void save_options(torch::autograd::AutogradContext* context, const KernelOptions& o) {
  context->saved_data["causal"] = o.is_causal;
  context->saved_data["scale"] = o.scale;
  context->saved_data["softcap"] = o.softcap;
}

KernelOptions saved_options(torch::autograd::AutogradContext* context,
                            const at::Tensor& table,
                            const at::Tensor& positions,
                            const at::Tensor& starts) {
  return {.table = table,
          .positions = positions,
          .starts = starts,
          .is_causal = context->saved_data["causal"].toBool(),
          .scale = context->saved_data["scale"].toDouble(),
          .softcap = context->saved_data["softcap"].toDouble()};
}

class HeadAttention : public torch::autograd::Function<HeadAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& query,
                            const at::Tensor& key,
                            const at::Tensor& value,
                            const KernelOptions& o) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor q = dense_rows(query);
    const at::Tensor k = dense_rows(key);
    const at::Tensor v = dense_rows(value);
    const AttentionResult result = attention_result(q.sizes(), [&] {
      at::Tensor made = at::empty(q.sizes(), q.options());
      at::Tensor of_scores = attend_into(made, kernel_input(q, k, v, o));
      return AttentionResult{.y = std::move(made), .sums = std::move(of_scores)};
    });
    context->save_for_backward({q, k, v, result.y, result.sums, o.table, o.positions, o.starts});
    save_options(context, o);
    return result.y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("attention", "aten::matmul and aten::softmax");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor& k = saved[1];
    const at::Tensor& v = saved[2];
    const KernelOptions o = saved_options(context, saved[5], saved[6], saved[7]);
    const QkvGrads out{at::empty(q.sizes(), q.options()),
                       at::empty(k.sizes(), k.options()),
                       at::empty(v.sizes(), v.options())};
    attend_backward_into(out, kernel_input(q, k, v, o), saved[3], saved[4], grads[0]);
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
                            const KernelOptions& o) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor qkv = dense_rows(qkv_in);
    const auto [q, k, v] = parts_of(qkv, num_heads, num_kv_heads);
    const auto inputs = kernel_input(q, k, v, o);
    const std::array<int64_t, 3> shape = {q.size(0), q.size(1), num_heads * q.size(3)};
    const at::IntArrayRef head_shape = q.sizes();
    const AttentionResult result = attention_result(shape, [&] {
      at::Tensor made = at::empty(shape, qkv.options());
      at::Tensor of_scores = attend_into(made.view(head_shape), inputs);
      return AttentionResult{.y = std::move(made), .sums = std::move(of_scores)};
    });
    context->save_for_backward({qkv, result.y, result.sums, o.table, o.positions, o.starts});
    context->saved_data["heads"] = num_heads;
    context->saved_data["kv_heads"] = num_kv_heads;
    save_options(context, o);
    return result.y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    check_first_order("packed_attention", "aten::matmul and aten::softmax");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const int64_t num_heads = context->saved_data["heads"].toInt();
    const int64_t num_kv_heads = context->saved_data["kv_heads"].toInt();
    const KernelOptions o = saved_options(context, saved[3], saved[4], saved[5]);
    const auto [q, k, v] = parts_of(saved[0], num_heads, num_kv_heads);
    const at::Tensor out = at::empty(saved[0].sizes(), saved[0].options());
    attend_backward_into(parts_of(out, num_heads, num_kv_heads),
                         kernel_input(q, k, v, o),
                         saved[1].view(q.sizes()),
                         saved[2],
                         dense_rows(grads[0]).unflatten(2, {num_heads, q.size(3)}));
    return {out, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// The first key that each query sees, [B, T] or [1, T]; undefined if that is always key 0.
at::Tensor first_keys(const AttentionOptions& o, int64_t T) {
  const bool has_window = o.window > 0 && o.window < T;
  if (!has_window && !o.segments) {
    return {};
  }
  const at::Tensor segments =
      o.segments ? o.segments->to(at::kLong).contiguous() : at::zeros({1, T}, at::kLong);
  const int64_t B = segments.size(0);
  at::Tensor starts = at::empty({B, T}, at::kInt);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t* const segment = segments.const_data_ptr<int64_t>() + b * T;
    auto* const start = starts.mutable_data_ptr<int32_t>() + b * T;
    int64_t run = 0;
    for (int64_t t = 0; t < T; ++t) {
      run = t > 0 && segment[t] != segment[t - 1] ? t : run;
      start[t] = static_cast<int32_t>(has_window ? std::max(run, t - o.window + 1) : run);
    }
  }
  return starts;
}

KernelOptions kernel_options(const AttentionOptions& o, const at::Tensor& q) {
  const double root = std::sqrt(static_cast<double>(q.size(3)));
  return {.table = o.rotary ? o.rotary->to(at::kFloat).contiguous() : at::Tensor(),
          .positions = o.rotary
                           ? rotary_positions(
                                 "attention", o.positions, q.size(0), q.size(1), o.rotary->size(1))
                           : at::Tensor(),
          .starts = first_keys(o, q.size(1)),
          .is_causal = o.is_causal,
          .scale = o.scale.value_or(1.0 / root),
          .softcap = o.softcap};
}

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

// True where a query may see a key: [T, T] or [B, 1, T, T].
at::Tensor visible(const at::Tensor& query_BTHE, const AttentionOptions& o) {
  const int64_t T = query_BTHE.size(1);
  const at::Tensor at_T = at::arange(T, query_BTHE.options().dtype(at::kLong));
  const at::Tensor back_TT = at_T.unsqueeze(1) - at_T.unsqueeze(0);
  at::Tensor mask = back_TT.ge(0);
  if (o.window > 0) {
    mask = mask.logical_and(back_TT.lt(o.window));
  }
  if (o.segments) {
    // The number of the run that a position is in.
    const at::Tensor run_BT =
        at::constant_pad_nd(o.segments->diff().ne(0), {1, 0}, 0).to(at::kLong).cumsum(1);
    mask = mask.logical_and(run_BT.unsqueeze(2).eq(run_BT.unsqueeze(1))).unsqueeze(1);
  }
  return mask;
}

// By libtorch's operators.
at::Tensor plain_attention(const at::Tensor& query_BTHE,
                           const at::Tensor& key_BSKE,
                           const at::Tensor& value_BSKE,
                           const AttentionOptions& o) {
  const auto turned = [&o](const at::Tensor& x) {
    return (o.rotary ? rope(x, *o.rotary, o.positions) : x).transpose(1, 2);
  };
  const at::Tensor q_BHTE = turned(query_BTHE);
  at::Tensor k_BKSE = turned(key_BSKE);
  at::Tensor v_BKSE = value_BSKE.transpose(1, 2);
  const int64_t group = query_BTHE.size(2) / key_BSKE.size(2);
  const double scale = o.scale.value_or(1.0 / std::sqrt(static_cast<double>(query_BTHE.size(3))));
  // On a CPU, libtorch's grouped-query kernel is slow; repeating the keys costs much less.
  const bool has_mask = o.window > 0 || o.segments.has_value();
  const bool repeats = group > 1 && (query_BTHE.device().is_cpu() || o.softcap > 0);
  if (repeats) {
    k_BKSE = k_BKSE.repeat_interleave(group, 1);
    v_BKSE = v_BKSE.repeat_interleave(group, 1);
  }
  if (o.softcap > 0) {
    at::Tensor scores = at::matmul(q_BHTE, k_BKSE.transpose(2, 3)) * scale;
    scores = o.softcap * at::tanh(scores / o.softcap);
    if (o.is_causal) {
      scores = scores.masked_fill(visible(query_BTHE, o).logical_not(),
                                  -std::numeric_limits<double>::infinity());
    }
    at::Tensor weights = at::softmax(scores, -1);
    if (o.dropout > 0) {
      weights = at::dropout(weights, o.dropout, /*train=*/true);
    }
    return at::matmul(weights, v_BKSE).transpose(1, 2);
  }
  const std::optional<at::Tensor> mask =
      has_mask ? std::optional(visible(query_BTHE, o)) : std::nullopt;
  return at::scaled_dot_product_attention(q_BHTE,
                                          k_BKSE,
                                          v_BKSE,
                                          mask,
                                          o.dropout,
                                          /*is_causal=*/o.is_causal && !has_mask,
                                          scale,
                                          /*enable_gqa=*/group > 1 && !repeats)
      .transpose(1, 2);
}

void check(const at::Tensor& q,
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

}  // namespace

at::Tensor attention(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const AttentionOptions& options) {
  check(query, key, value, options);
  const auto keeps = [&](at::Device device) { return can_keep(query, options, device); };
  if (count_attention(query, keeps)) {
    return at::empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.options());
  }
  if (has_kernel(query, key, value, options)) {
    // The kernels want values as wide as keys.
    const int64_t missing = key.size(3) - value.size(3);
    const at::Tensor wide = missing > 0 ? at::constant_pad_nd(value, {0, missing}) : value;
    const at::Tensor y = HeadAttention::apply(query, key, wide, kernel_options(options, query));
    return missing > 0 ? y.narrow(3, 0, value.size(3)) : y;
  }
  return plain_attention(query, key, value, options);
}

at::Tensor packed_attention(const at::Tensor& qkv,
                            int64_t num_heads,
                            int64_t num_kv_heads,
                            const AttentionOptions& options) {
  TORCH_CHECK(qkv.dim() == 3 && num_heads > 0 && num_kv_heads > 0 &&
                  qkv.size(2) % (num_heads + 2 * num_kv_heads) == 0,
              "tenon::packed_attention: qkv ",
              qkv.sizes(),
              " must be [B, T, (H + 2 K) E] with H = ",
              num_heads,
              " and K = ",
              num_kv_heads);
  const auto [q, k, v] = parts_of(qkv, num_heads, num_kv_heads);
  check(q, k, v, options);
  const at::Tensor& query = q;
  const auto keeps = [&](at::Device device) { return can_keep(query, options, device); };
  if (count_attention(query, keeps)) {
    return at::empty({query.size(0), query.size(1), query.size(2) * v.size(3)}, query.options());
  }
  if (has_kernel(qkv, qkv, qkv, options)) {
    return PackedAttention::apply(qkv, num_heads, num_kv_heads, kernel_options(options, q));
  }
  // A view of the values would keep all of qkv for the backward.
  return plain_attention(q, k, v.contiguous(), options).flatten(2);
}

}  // namespace tenon
