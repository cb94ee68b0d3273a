// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/head_exchange.hpp"

#include "host/kernels/rank_heads.hpp"
#include "host/kernels/saved_parts.hpp"
#include "host/kernels/sequence_exchange.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The key heads of `slots`: a view if they follow each other.
at::Tensor take_slots(const at::Tensor& x_BTKE, const std::vector<int64_t>& slots) {
  const auto n = static_cast<int64_t>(slots.size());
  if (n == 0 || slots.back() - slots.front() + 1 == n) {
    return x_BTKE.narrow(2, n == 0 ? 0 : slots.front(), n);
  }
  return x_BTKE.index_select(2, at::tensor(slots, x_BTKE.options().dtype(at::kLong)));
}

at::Tensor take_heads(const at::Tensor& x_BTHE, const RankHeads& heads) {
  return x_BTHE.narrow(2, heads.first, heads.end - heads.first);
}

// The gradients of K key heads from those of all slots, in rank order.
at::Tensor sum_slots(const RankTensors& got,
                     size_t which,
                     const std::vector<RankHeads>& heads,
                     int64_t num_kv_heads) {
  std::vector<std::vector<at::Tensor>> terms(static_cast<size_t>(num_kv_heads));
  for (size_t r = 0; r < heads.size(); ++r) {
    for (size_t slot = 0; slot < heads[r].kv_slots.size(); ++slot) {
      terms[static_cast<size_t>(heads[r].kv_slots[slot])].push_back(
          got[r][which].narrow(2, static_cast<int64_t>(slot), 1));
    }
  }
  std::vector<at::Tensor> sums;
  for (const std::vector<at::Tensor>& of_head : terms) {
    sums.push_back(sum_in_order(of_head));
  }
  return at::cat(sums, 2);
}

// One tensor of each rank, joined.
at::Tensor joined(const RankTensors& got, size_t which, int64_t axis) {
  std::vector<at::Tensor> of_ranks;
  for (const std::vector<at::Tensor>& tensors : got) {
    of_ranks.push_back(tensors[which]);
  }
  return at::cat(of_ranks, axis);
}

// Heads of this rank's positions for each rank, to positions of this rank's heads; each tensor of
// `by_rank` [B, T, n, W].
RankTensors send_heads(const RankTensors& by_rank,
                       const SequenceParts& parts,
                       std::string_view what) {
  const std::vector<at::Tensor>& own = by_rank[parts.ranks->rank()];
  RankShapes shapes(by_rank.size());
  for (size_t r = 0; r < by_rank.size(); ++r) {
    for (const at::Tensor& x : own) {
      shapes[r].push_back({x.size(0), parts.lengths[r], x.size(2), x.size(3)});
    }
  }
  return exchange_tensors(parts, by_rank, shapes, own.front().options(), what);
}

// Positions of this rank's heads for each rank, to heads of this rank's positions. `counts[r]` are
// the heads of rank r for each tensor.
RankTensors send_positions(const std::vector<at::Tensor>& whole,
                           const std::vector<std::vector<int64_t>>& counts,
                           const SequenceParts& parts,
                           std::string_view what) {
  RankTensors send(counts.size());
  RankShapes shapes(counts.size());
  for (size_t r = 0; r < counts.size(); ++r) {
    for (size_t i = 0; i < whole.size(); ++i) {
      const at::Tensor& x = whole[i];
      send[r].push_back(positions_of(x, parts, static_cast<uint32_t>(r)));
      shapes[r].push_back({x.size(0), parts.length(), counts[r][i], x.size(3)});
    }
  }
  return exchange_tensors(parts, send, shapes, whole.front().options(), what);
}

class ToHeads : public torch::autograd::Function<ToHeads> {
 public:
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& query,
                               const at::Tensor& key,
                               const at::Tensor& value,
                               const SequenceParts* parts) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["heads"] = query.size(2);
    context->saved_data["kv_heads"] = key.size(2);
    save_parts(context, parts);
    RankTensors send;
    for (const RankHeads& heads :
         heads_of_ranks(query.size(2), key.size(2), parts->ranks->size())) {
      send.push_back({take_heads(query, heads),
                      take_slots(key, heads.kv_slots),
                      take_slots(value, heads.kv_slots)});
    }
    const RankTensors got = send_heads(send, *parts, "heads of attention");
    return {joined(got, 0, 1), joined(got, 1, 1), joined(got, 2, 1)};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SequenceParts& parts = saved_parts(context);
    const int64_t num_kv_heads = context->saved_data["kv_heads"].toInt();
    const std::vector<RankHeads> heads =
        heads_of_ranks(context->saved_data["heads"].toInt(), num_kv_heads, parts.ranks->size());
    std::vector<std::vector<int64_t>> counts;
    for (const RankHeads& of : heads) {
      const auto slots = static_cast<int64_t>(of.kv_slots.size());
      counts.push_back({of.end - of.first, slots, slots});
    }
    const RankTensors got = send_positions(grads, counts, parts, "gradients of attention's heads");
    return {joined(got, 0, 2),
            sum_slots(got, 1, heads, num_kv_heads),
            sum_slots(got, 2, heads, num_kv_heads),
            at::Tensor()};
  }
};

class ToPositions : public torch::autograd::Function<ToPositions> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& y,
                            int64_t num_heads,
                            const SequenceParts* parts) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["heads"] = num_heads;
    save_parts(context, parts);
    std::vector<std::vector<int64_t>> counts;
    for (const RankHeads& heads : query_heads(num_heads, *parts)) {
      counts.push_back({heads.end - heads.first});
    }
    return joined(send_positions({y}, counts, *parts, "outputs of attention"), 0, 2);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const SequenceParts& parts = saved_parts(context);
    RankTensors send;
    for (const RankHeads& heads : query_heads(context->saved_data["heads"].toInt(), parts)) {
      send.push_back({take_heads(grads[0], heads)});
    }
    return {joined(send_heads(send, parts, "gradients of attention's outputs"), 0, 1),
            at::Tensor(),
            at::Tensor()};
  }

 private:
  // Key heads do not matter here.
  static std::vector<RankHeads> query_heads(int64_t num_heads, const SequenceParts& parts) {
    return heads_of_ranks(num_heads, num_heads, parts.ranks->size());
  }
};

}  // namespace

std::array<at::Tensor, 3> exchange_to_heads(const at::Tensor& query_BTHE,
                                            const at::Tensor& key_BTKE,
                                            const at::Tensor& value_BTKV,
                                            const SequenceParts& parts) {
  const variable_list got = ToHeads::apply(query_BTHE, key_BTKE, value_BTKV, &parts);
  return {got[0], got[1], got[2]};
}

at::Tensor exchange_to_positions(const at::Tensor& y_BSHV,
                                 int64_t num_heads,
                                 const SequenceParts& parts) {
  return ToPositions::apply(y_BSHV, num_heads, &parts);
}

}  // namespace tenon
