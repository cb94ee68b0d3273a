// SPDX-License-Identifier: Apache-2.0
#include "host/model/step_sums.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/parameter_store.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

namespace tenon {

StepSums::StepSums(const ComponentInstance& model, const ModelGraph& graph, ParameterStore& store)
    : store_(store), proxy_(StepSumsProxy::of(model)) {
  if (!proxy_.has_value()) {
    return;
  }
  const StepSumsDescription description = proxy_->describe();
  index_of_.resize(graph.buffers.size());
  for (const uint32_t number : description.buffers) {
    const auto found = std::ranges::find_if(graph.buffers, [number](const ModelBuffer& buffer) {
      return buffer.model == 0 && !buffer.is_real && buffer.number == number;
    });
    if (found == graph.buffers.end()) {
      throw Error(
          "model.bad_graph",
          formatted("the model sums buffer {} over a step, but has no such buffer", number));
    }
    const auto b = static_cast<uint32_t>(found - graph.buffers.begin());
    const at::Tensor& buffer = store.buffer(b);
    const bool is_integer = !buffer.is_floating_point();
    index_of_[b] = sums_.size();
    buffers_.push_back(b);
    sums_.push_back(
        at::zeros(buffer.sizes(), buffer.options().dtype(is_integer ? at::kLong : at::kDouble)));
  }
  int64_t num_loads = 0;
  for (const StepSumsDescription::Balance& of : description.balances) {
    const auto found = std::ranges::find_if(graph.blocks, [&of](const ModelBlock& block) {
      return block.model == 0 && block.number == of.block;
    });
    if (found == graph.blocks.end()) {
      continue;  // the run skips the block
    }
    const auto b = static_cast<uint32_t>(found - graph.blocks.begin());
    const auto number = static_cast<size_t>(std::ranges::count(balances_, b, &Balance::block));
    balances_.push_back(
        {.block = b, .number = number, .num_experts = of.num_experts, .begin = num_loads});
    num_loads += of.num_experts + 1;
  }
  std::ranges::stable_sort(balances_, {}, &Balance::block);
  if (num_loads > 0) {
    loads_.push_back(
        at::zeros({num_loads}, at::TensorOptions().dtype(at::kLong).device(store.device())));
  }
}

at::Tensor StepSums::increment_of(uint32_t buffer, const at::Tensor& next) const {
  const at::Tensor& sum = sums_[*index_of_[buffer]];
  at::Tensor increment = at::empty_like(sum).copy_(next.detach());
  if (store_.graph().buffers[buffer].kind == TENON_BUFFER_STATE) {
    increment.sub_(store_.buffer(buffer));
  }
  return increment;
}

void StepSums::add(uint32_t buffer, const at::Tensor& increment) {
  sums_[*index_of_[buffer]].add_(increment);
}

void StepSums::apply() {
  for (const uint32_t b : buffers_) {
    if (store_.graph().buffers[b].kind == TENON_BUFFER_STATE) {
      const at::Tensor& sum = sums_[*index_of_[b]];
      store_.set_buffer(b, store_.buffer(b).to(sum.scalar_type()) + sum);
    }
  }
}

at::Tensor StepSums::at_end_of_step(uint32_t buffer) const {
  const at::Tensor& now = store_.buffer(buffer);
  const bool is_sum =
      is_summed(buffer) && store_.graph().buffers[buffer].kind == TENON_BUFFER_CONSTANT;
  return is_sum ? sums_[*index_of_[buffer]].to(now.scalar_type()) : now;
}

const StepSums::Balance* StepSums::find(uint32_t b, size_t k) const {
  const auto found = std::ranges::find_if(balances_, [b, k](const Balance& balance) {
    return balance.block == b && balance.number == k;
  });
  return found == balances_.end() ? nullptr : &*found;
}

std::optional<int64_t> StepSums::num_experts(uint32_t b, size_t k) const {
  const Balance* const balance = find(b, k);
  return balance != nullptr ? std::optional(balance->num_experts) : std::nullopt;
}

void StepSums::add_loads(uint32_t b, size_t k, const at::Tensor& loads) {
  const Balance& balance = *find(b, k);
  loads_.front().narrow(0, balance.begin, balance.num_experts + 1).add_(loads.detach());
}

at::Tensor StepSums::factors(uint32_t b, size_t k) const {
  const Balance& balance = *find(b, k);
  const at::Tensor loads = loads_.front().narrow(0, balance.begin, balance.num_experts);
  const at::Tensor tokens = this->tokens(b, k);
  return loads.to(at::kDouble) * (static_cast<double>(balance.num_experts) / (tokens * tokens));
}

at::Tensor StepSums::tokens(uint32_t b, size_t k) const {
  const Balance& balance = *find(b, k);
  return loads_.front().select(0, balance.begin + balance.num_experts).to(at::kDouble);
}

void StepSums::clear() {
  for (at::Tensor& sum : sums_) {
    sum.zero_();
  }
  for (at::Tensor& loads : loads_) {
    loads.zero_();
  }
}

}  // namespace tenon
