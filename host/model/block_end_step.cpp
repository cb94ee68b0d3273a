// SPDX-License-Identifier: Apache-2.0
//
// What the host does with sums of a step: the parts of BlockRunner that take them from a forward,
// and that end a training step.
#include <tenon/model.h>

#include "host/model/block_call.hpp"
#include "host/model/block_runner.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace tenon {

std::pair<at::Tensor, at::Tensor> sum_and_count(const StepSums& sums, const AuxLoss& aux) {
  if (!aux.balance.has_value()) {
    return {aux.sum, aux.count};
  }
  // The loss is sum(factors * shares of the step). It is divided by the tokens of the step later.
  const at::Tensor factors = sums.factors(aux.block, *aux.balance);
  const at::Tensor tokens = sums.tokens(aux.block, *aux.balance);
  return {(factors * aux.sum.to(at::kDouble)).sum() * tokens, aux.count[-1].to(at::kDouble)};
}

void add_loads(StepSums& sums, const std::vector<AuxLoss>& losses) {
  for (const AuxLoss& aux : losses) {
    if (aux.balance.has_value() && aux.is_counted) {
      sums.add_loads(aux.block, *aux.balance, aux.count);
    }
  }
}

// The gradient of an auxiliary loss is that of its mean over the tokens of all ranks. The counts of
// pieces are added up here, so that ranks of a tensor group have the counts of their part.
void BlockRunner::share_aux_losses(uint32_t b, BlockTape& tape) {
  for (AuxLoss& aux : tape.aux) {
    aux.is_counted = counts(b);
    if (!tape.pieces.empty()) {
      aux.count = aux.count.clone(at::MemoryFormat::Contiguous);
      tensor_ranks_->sum(aux.count, "count of an auxiliary loss");
    }
    if (divided_ != nullptr && !is_whole(b) && !aux.balance.has_value()) {
      aux.whole_count =
          divided_->group->sum(aux.count.to(at::kDouble).reshape({1}), "count of an auxiliary loss")
              .reshape({});
    }
  }
}

void BlockRunner::take_buffers(uint32_t b,
                               const BlockTape& tape,
                               const std::vector<at::Tensor>& next) {
  for (size_t i = 0; i < next.size(); ++i) {
    if (!next[i].defined()) {
      continue;
    }
    check_buffer(b, i, next[i]);
    const uint32_t buffer = graph_.blocks[b].buffers[i];
    if (!sums_.is_summed(buffer)) {
      store_.set_buffer(buffer, next[i]);
    } else if (counts(b)) {
      at::Tensor increment = sums_.increment_of(buffer, next[i]);
      if (!tape.pieces.empty()) {
        tensor_ranks_->sum(increment, "sums of buffers");
      }
      sums_.add(buffer, increment);
    }
  }
}

void BlockRunner::end_step(ShardedParameters* sharded) {
  if (sums_.is_empty()) {
    return;
  }
  const at::AutoGradMode no_grad(false);
  if (sharded != nullptr) {
    sharded->sum_over_ranks(sums_.buffer_sums(), "sums of buffers");
  }
  sums_.apply();
  for (uint32_t b = 0; b < graph_.blocks.size() && sums_.proxy()->has_end_step(); ++b) {
    const ModelBlock& block = graph_.blocks[b];
    const auto declared = block.declared_buffers();
    if (block.model != 0 ||
        std::ranges::none_of(declared, [this](uint32_t i) { return sums_.is_summed(i); })) {
      continue;
    }
    std::vector<at::Tensor> buffers;
    std::ranges::transform(declared, std::back_inserter(buffers), [this](uint32_t i) {
      return sums_.at_end_of_step(i);
    });
    const auto handles = borrow_all(buffers);
    OwnHandles next_handles(buffers.size());
    tenon_end_step_args args{};
    args.struct_size = sizeof(args);
    args.block = block.number;
    args.buffers = handles.data();
    args.num_buffers = handles.size();
    args.next_buffers_own = next_handles.data();
    frame_of(b).set_recompute(false);
    std::vector<at::Tensor> next;
    try {
      sums_.proxy()->end_step(frame_of(b).exec(), args);
      next = next_handles.take(identity_of(b), "end_step");
    } catch (const Error& error) {
      throw_with_context("end of the step of block '" + block.name + "'", error);
    }
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i].defined()) {
        check_buffer(b, i, next[i]);
        store_.set_buffer(declared[i], next[i]);
      }
    }
  }
}

}  // namespace tenon
