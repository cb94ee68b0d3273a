// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/divided_trial.hpp"

#include "host/error/error.hpp"
#include "host/model/divided_graph.hpp"
#include "host/model/position_ranges.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tools/check/default_dtype.hpp"
#include "host/tools/check/ranks_in_turn.hpp"

#include <utility>

namespace tenon {

DividedTrial::DividedTrial(Subject& subject, ModelTrial& whole, uint32_t num_ranks)
    : whole_(whole) {
  for (uint32_t r = 0; r < num_ranks; ++r) {
    ranks_.push_back(std::make_unique<ModelTrial>(
        subject, whole.checked(), whole.dtype(), RankIndex{.index = r, .count = num_ranks}));
  }
}

std::optional<Box> DividedTrial::part_of_value(uint32_t rank,
                                               uint32_t v,
                                               at::IntArrayRef shape) const {
  const ModelValue& value = graph().values[v];
  return value.is_divided
             ? std::optional(divided_part(*value.split, shape.vec(), at(rank), value.name))
             : std::nullopt;
}

at::Tensor DividedTrial::held(const at::Tensor& whole,
                              uint32_t v,
                              uint32_t rank,
                              const std::vector<int64_t>& pieces) const {
  if (!whole.defined()) {
    return whole;
  }
  if (const std::optional<Box> part = part_of_value(rank, v, whole.sizes())) {
    return part_of(whole, *part).contiguous();
  }
  return pieces.empty() ? whole : range_of_rank(whole, 1, pieces, rank).contiguous();
}

// Ranks whose parts have the same elements add their gradient once.
at::Tensor DividedTrial::held_gradient(const at::Tensor& whole,
                                       uint32_t v,
                                       TensorGroup& group,
                                       const std::vector<int64_t>& pieces) const {
  const ModelValue& value = graph().values[v];
  return whole.defined() && value.is_divided ? group.part_of_gradient(whole, *value.split)
                                             : held(whole, v, group.rank(), pieces);
}

RankResult DividedTrial::run_rank(const WholeCall& call,
                                  const std::vector<int64_t>& pieces,
                                  TensorGroup& group) {
  ModelTrial& trial = *ranks_[group.rank()];
  const ModelBlock& block = trial.graph().blocks[call.block];
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.push_back(held(call.inputs[i], block.inputs[i], group.rank(), pieces));
  }
  std::vector<at::Tensor> weights;
  for (std::size_t i = 0; i < call.weights.size(); ++i) {
    weights.push_back(held_gradient(call.weights[i], block.outputs[i], group, pieces));
  }
  return run_block(trial,
                   call.block,
                   inputs,
                   weights,
                   {.samples = trial.num_samples(),
                    .is_train = call.is_train,
                    .ranks = &group,
                    .pieces = pieces},
                   call.backward);
}

DividedOutcome DividedTrial::run(const WholeCall& call, const std::vector<int64_t>& pieces) {
  for (const auto& rank : ranks_) {
    rank->take_over(whole_);
  }
  // Calls of ranks are within each other. The default dtype, which each call sets, must not change
  // in between.
  const DefaultDtype of_run(whole_.dtype());
  DividedOutcome outcome;
  outcome.results.resize(num_ranks());
  try {
    outcome.failure = run_ranks_in_turn(num_ranks(), [&](Group& ranks) {
      TensorGroup group(ranks);
      try {
        outcome.results[group.rank()] = run_rank(call, pieces, group);
      } catch (...) {
        outcome.failed_rank = outcome.failed_rank.value_or(group.rank());
        throw;
      }
    });
    outcome.failed_rank.reset();  // ranks made different calls
  } catch (const Error& error) {
    outcome.failure = error.message();
    outcome.is_refused = dynamic_cast<const PluginError*>(&error) != nullptr;
  }
  if (!outcome.failure.empty()) {
    outcome.results.clear();
  }
  return outcome;
}

}  // namespace tenon
