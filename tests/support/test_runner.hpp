// SPDX-License-Identifier: Apache-2.0
//
// A runner with the state of one microbatch, for tests that run one at a time and add the gradients
// of values themselves.
#pragma once

#include "host/model/activation_store.hpp"
#include "host/model/program_runner.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {

enum class RecomputeMode { kNone, kBlocks, kSelective };

class TestRunner {
 public:
  TestRunner(ModelList models,
             ParameterStore& store,
             const ExecBase& base,
             RecomputeMode recompute,
             ShardedParameters* groups = nullptr,
             RowSource* rows = nullptr)
      : models_(std::move(models)), store_(store), base_(base), groups_(groups), rows_(rows) {
    if (recompute != RecomputeMode::kNone) {
      options.recomputed.assign(store.graph().blocks.size(), true);
    }
    options.keeps_attention = recompute == RecomputeMode::kSelective;
  }

  // May change until the first call below.
  RunnerOptions options;
  std::unique_ptr<ActivationStore> activations;

  void forward(const Batch& batch, const CallPoint& point) {
    runner().forward(*values_, batch, point);
  }
  // The pass of a rank without samples.
  void forward_idle(const CallPoint& point) { forward(Batch(), point); }
  const at::Tensor& value(uint32_t v) { return values().value(v); }
  bool needs_grad(uint32_t v) { return values().needs_grad(v); }
  const std::vector<AuxLoss>& aux_losses() { return values().aux_losses(); }
  void add_grad(uint32_t v, const at::Tensor& grad) { values().add_grad(v, grad); }
  void backward(double aux_scale = 1, const at::Tensor& loss_scale = {}, bool ends_step = true) {
    runner().backward(*values_, nullptr, {aux_scale, loss_scale}, ends_step);
  }
  void clear() { runner().clear(*values_); }
  void replay(const Batch& batch,
              const CallPoint& point,
              const std::function<bool(uint32_t block)>& seen) {
    runner().replay(*values_, batch, point, seen);
  }
  StepSums& sums() { return runner().sums(); }
  void count_loads(const Batch& batch, const CallPoint& point) {
    runner().count_loads(*values_, batch, point);
  }
  void add_loads() { tenon::add_loads(sums(), aux_losses()); }
  void end_step() { runner().end_step(); }

  ProgramRunner& runner() {
    if (!runner_.has_value()) {
      runner_.emplace(models_, store_, base_, options, groups_, rows_, std::move(activations));
      values_.emplace(runner_->new_state());
    }
    return *runner_;
  }
  MicrobatchState& values() {
    runner();
    return *values_;
  }

 private:
  const ModelList models_;
  ParameterStore& store_;
  const ExecBase base_;
  ShardedParameters* const groups_;
  RowSource* const rows_;
  std::optional<ProgramRunner> runner_;
  std::optional<MicrobatchState> values_;
};

}  // namespace tenon
