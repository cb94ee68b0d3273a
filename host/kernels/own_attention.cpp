// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/own_attention.hpp"

#include "host/kernels/attention_cut.hpp"
#include "host/kernels/attention_heads.hpp"
#include "host/kernels/rope.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
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

HeadRows<const float> rows_of(const at::Tensor& x_BTHE) {
  return {x_BTHE.const_data_ptr<float>(), x_BTHE.stride(0), x_BTHE.stride(1), x_BTHE.stride(2)};
}

HeadRows<float> mutable_rows_of(const at::Tensor& x_BTHE) {
  return {x_BTHE.mutable_data_ptr<float>(), x_BTHE.stride(0), x_BTHE.stride(1), x_BTHE.stride(2)};
}

AttentionInput kernel_input(const at::Tensor& q_BTHE,
                            const at::Tensor& k_BSKE,
                            const at::Tensor& v_BSKE,
                            const OwnAttentionOptions& o) {
  AttentionInput in{.sizes = {.B = q_BTHE.size(0),
                              .T = q_BTHE.size(1),
                              .S = k_BSKE.size(1),
                              .H = q_BTHE.size(2),
                              .K = k_BSKE.size(2),
                              .E = q_BTHE.size(3)},
                    .first = o.first,
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

// The first key that a query at each of S positions sees, [B, S] or [1, S]; undefined if that is
// always key 0.
at::Tensor first_keys(const AttentionOptions& o, int64_t S) {
  const bool has_window = o.window > 0 && o.window < S;
  if (!has_window && !o.segments) {
    return {};
  }
  const at::Tensor segments =
      o.segments ? o.segments->to(at::kLong).contiguous() : at::zeros({1, S}, at::kLong);
  const int64_t B = segments.size(0);
  at::Tensor starts = at::empty({B, S}, at::kInt);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t* const segment = segments.const_data_ptr<int64_t>() + b * S;
    auto* const start = starts.mutable_data_ptr<int32_t>() + b * S;
    int64_t run = 0;
    for (int64_t t = 0; t < S; ++t) {
      run = t > 0 && segment[t] != segment[t - 1] ? t : run;
      start[t] = static_cast<int32_t>(has_window ? std::max(run, t - o.window + 1) : run);
    }
  }
  return starts;
}

}  // namespace

OwnAttentionOptions own_attention_options(const AttentionOptions& o,
                                          const at::Tensor& query_BTHE,
                                          int64_t S,
                                          int64_t first) {
  const int64_t T = query_BTHE.size(1);
  const double root = std::sqrt(static_cast<double>(query_BTHE.size(3)));
  const at::Tensor starts = first_keys(o, S);
  return {.table = o.rotary ? o.rotary->to(at::kFloat).contiguous() : at::Tensor(),
          .positions = o.rotary
                           ? rotary_positions(
                                 "attention", o.positions, query_BTHE.size(0), S, o.rotary->size(1))
                           : at::Tensor(),
          .starts = starts.defined() && T != S ? starts.narrow(1, first, T).contiguous() : starts,
          .first = first,
          .is_causal = o.is_causal,
          .scale = o.scale.value_or(1.0 / root),
          .softcap = o.softcap};
}

at::Tensor dense_rows(const at::Tensor& x) {
  return x.stride(-1) == 1 ? x : x.contiguous();
}

at::Tensor own_attention_into(const at::Tensor& y_BTHE,
                              const at::Tensor& q_BTHE,
                              const at::Tensor& k_BSKE,
                              const at::Tensor& v_BSKE,
                              const OwnAttentionOptions& options) {
  const AttentionInput in = kernel_input(q_BTHE, k_BSKE, v_BSKE, options);
  const AttentionSizes& s = in.sizes;
  at::Tensor sums = at::empty({s.B, s.H, s.T}, y_BTHE.options());
  const AttentionOutput out{mutable_rows_of(y_BTHE), sums.mutable_data_ptr<float>()};
  run_tasks(
      attention_tasks(s), s, [&](int64_t task, float* scratch) { attend(in, task, out, scratch); });
  return sums;
}

void own_attention_backward_into(const QkvGrads& grads,
                                 const OwnAttentionCall& call,
                                 const OwnAttentionOptions& options,
                                 const at::Tensor& grad_y_BTHE) {
  const AttentionInput in = kernel_input(call.q_BTHE, call.k_BSKE, call.v_BSKE, options);
  const AttentionSizes& s = in.sizes;
  const BackwardTasks cut = backward_tasks(in);
  const at::Tensor g = dense_rows(grad_y_BTHE);
  const auto like = call.sums_BHT.options();
  const at::Tensor more_q = at::empty({cut.key_parts - 1, s.B, s.T, s.H, s.E}, like);
  const at::Tensor more_k = at::empty({cut.head_parts - 1, s.B, s.S, s.K, s.E}, like);
  const at::Tensor more_v = at::empty_like(more_k);
  const auto rows = [](const at::Tensor& first, const at::Tensor& more, int64_t part) {
    return mutable_rows_of(part == 0 ? first : more.select(0, part - 1));
  };
  run_tasks(static_cast<int64_t>(cut.tasks.size()), s, [&](int64_t i, float* scratch) {
    const BackwardTask& task = cut.tasks[static_cast<size_t>(i)];
    attend_backward(in,
                    task.part,
                    {.y = rows_of(call.y_BTHE),
                     .sums = call.sums_BHT.const_data_ptr<float>(),
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

void save_own_options(torch::autograd::AutogradContext* context, const OwnAttentionOptions& o) {
  context->saved_data["first"] = o.first;
  context->saved_data["causal"] = o.is_causal;
  context->saved_data["scale"] = o.scale;
  context->saved_data["softcap"] = o.softcap;
}

OwnAttentionOptions saved_own_options(torch::autograd::AutogradContext* context,
                                      const at::Tensor& table,
                                      const at::Tensor& positions,
                                      const at::Tensor& starts) {
  return {.table = table,
          .positions = positions,
          .starts = starts,
          .first = context->saved_data["first"].toInt(),
          .is_causal = context->saved_data["causal"].toBool(),
          .scale = context->saved_data["scale"].toDouble(),
          .softcap = context->saved_data["softcap"].toDouble()};
}

}  // namespace tenon
