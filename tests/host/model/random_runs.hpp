// SPDX-License-Identifier: Apache-2.0
//
// Runs of the models of random_model.hpp, with every setting that shapes a program, and one rank of
// such a run. One autograd graph over the same functions is the oracle.
#pragma once

#include "host/model/activation_store.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/program_runner.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/model/stage_exchange.hpp"
#include "host/model/stages.hpp"
#include "host/plugin/model_proxy.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/host/model/random_model.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {

inline constexpr double kAuxScale = 0.5;
inline constexpr uint32_t kMicrobatches = 2;

// What a run of a random model does, and on how many ranks.
struct RunCase {
  uint64_t seed = 0;
  RunnerOptions options = {};
  bool moves = false;
  std::vector<uint32_t> read = {};  // by the loss
  int64_t replicate = 1;
  int64_t shard = 1;
  int stage = 3;
  std::optional<bool> reshard = {};
  bool has_rows = false;
  uint32_t unsharded = 9;  // parameters p with p % 5 equal to it are kept whole
  // Of a pipeline: the stage of each block, and the rank of each stage. Empty: one stage.
  std::vector<uint32_t> stages = {};
  std::vector<uint32_t> owners = {};

  // The number of ranks with different samples.
  uint32_t size() const { return static_cast<uint32_t>(replicate * shard); }
  ProgramRunner::Losses losses() const {
    return options.loss_chunk > 0 ? ProgramRunner::Losses::kInChunks
                                  : ProgramRunner::Losses::kWhole;
  }
};

inline void draw_losses(RunCase& made, const ModelGraph& graph, Draw& draw) {
  const std::vector<uint32_t> tails = tail_outputs(graph);
  if (!tails.empty() && draw.chance(40)) {
    made.options.loss_chunk = draw.number(1, 6);
    made.read = tails;
  } else {
    made.read = {graph.blocks.back().outputs.front()};
    for (uint32_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].maker != kNoIndex && draw.chance(20)) {
        made.read.push_back(v);
      }
    }
  }
  std::ranges::sort(made.read);
  const auto repeated = std::ranges::unique(made.read);
  made.read.erase(repeated.begin(), repeated.end());
  if (draw.chance(80)) {
    made.options.kept = made.read;
  }
}

inline RunCase random_run(uint64_t seed) {
  RandomModel model(seed);
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, model.test.table(), &model.test));
  const ModelGraph graph = describe_model(proxy);
  Draw& draw = model.random().draw();
  RunCase made;
  made.seed = seed;
  if (draw.chance(60)) {
    const uint32_t percent = draw.one_of(std::vector<uint32_t>{60, 100});
    for (size_t b = 0; b < graph.blocks.size(); ++b) {
      made.options.recomputed.push_back(draw.chance(percent));
    }
  }
  made.options.tile = draw.chance(40) ? draw.number(1, 6) : 0;
  draw_losses(made, graph, draw);
  made.has_rows = std::ranges::any_of(
      graph.values, [](const ModelValue& value) { return value.lookup.has_value(); });
  made.moves = draw.chance(40);
  made.shard = draw.one_of(std::vector<uint32_t>{1, 1, 2, 4});
  made.replicate = made.shard == 4 ? 1 : draw.number(1, 2);
  made.stage = static_cast<int>(draw.number(1, 3));
  if (draw.chance(40)) {
    made.reshard = draw.chance(50);
  }
  made.unsharded = draw.number(0, 9);
  return made;
}

// The rows of a value in a microbatch of a rank.
inline at::Tensor rows_of(uint32_t v, uint32_t rank, uint32_t microbatch) {
  std::mt19937_64 generator(1000 * rank + 100 * v + microbatch);
  return numbers({kSamples, kWidth}, generator);
}

class RowsAtRandom final : public RowSource {
 public:
  explicit RowsAtRandom(uint32_t rank) : rank_(rank) {}
  std::unique_ptr<RowPass> begin(const Batch* batch, const CallPoint& point, Lookup) override {
    return std::make_unique<Pass>(*this, point.microbatch, batch != nullptr);
  }
  std::map<std::pair<uint32_t, uint32_t>, at::Tensor> grads;  // by microbatch and value

 private:
  class Pass final : public RowPass {
   public:
    Pass(RowsAtRandom& rows, uint32_t microbatch, bool has_samples)
        : rows_(rows), microbatch_(microbatch), has_samples_(has_samples) {}
    at::Tensor rows(uint32_t v, const at::Tensor&) override {
      return has_samples_ ? rows_of(v, rows_.rank_, microbatch_) : at::Tensor();
    }
    void take_grad(uint32_t v, const at::Tensor& grad) override {
      rows_.grads[{microbatch_, v}] = grad;
    }

   private:
    RowsAtRandom& rows_;
    const uint32_t microbatch_;
    const bool has_samples_;
  };

  const uint32_t rank_;
};

inline double factor_of(uint32_t v) {
  return 0.5 + 0.25 * static_cast<double>(v % 7);
}

// The sum of each value that the case reads, times its factor.
class SumOfValues final : public LossPort {
 public:
  explicit SumOfValues(const std::vector<uint32_t>& read) : read_(read) {}
  void compute(MicrobatchState& state) override {
    for (const uint32_t v : read_) {
      sum += state.value(v).sum().item<double>() * factor_of(v);
    }
  }
  void backward(MicrobatchState& state) override {
    for (size_t i = read_.size(); i-- > 0;) {
      const uint32_t v = read_[i];
      if (state.needs_grad(v)) {
        state.add_grad(v, at::full_like(state.value(v), factor_of(v)));
      }
    }
  }
  double sum = 0;

 private:
  const std::vector<uint32_t>& read_;
};

// One rank of a case.
class CaseRank {
 public:
  CaseRank(const RunCase& of, RankGroups& ranks)
      : of_(of),
        rank_(ranks.role().samples().index),
        model_(of.seed),
        proxy_(made_instance("model", TENON_MODEL_ID, model_.test.table(), &model_.test)),
        graph_(graph_of(proxy_, of, ranks.role())),
        store(graph_, layout(ranks.role())),
        sharded(store, ranks, options(of)),
        rows(rank_),
        exchange(ranks.pipeline(), ranks.messages(), graph_.stage_owners),
        runner(proxy_,
               store,
               exec_base(),
               of.options,
               &sharded,
               of.has_rows ? &rows : nullptr,
               of.moves ? host_activations() : nullptr,
               nullptr,
               nullptr,
               &exchange) {
    initialise(store);
    sharded.synchronise();
  }

  void initialise(ParameterStore& parameters) {
    const ExecFrame frame(proxy_.instance().host(), exec_base());
    parameters.initialise(proxy_, frame.exec(), 7);
  }

  // The last rank of several has no samples in the second microbatch.
  Batch batch_of(uint32_t rank, uint32_t microbatch) const {
    const bool is_idle = of_.size() > 1 && rank + 1 == of_.size() && microbatch == 1;
    return model_.batch(10 * rank + microbatch, is_idle ? 0 : kSamples);
  }
  // Adds to `expected` the gradients of one graph over a microbatch of rank `rank`; `row_grads` is
  // by value. Returns the values.
  Tensors whole_graph(const Batch& batch,
                      uint32_t rank,
                      uint32_t microbatch,
                      ParameterStore& expected,
                      std::map<uint32_t, at::Tensor>& row_grads) {
    Tensors parameters;
    std::vector<uint32_t> of_store;
    for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
      const uint32_t same = graph_.parameters[p].same_as;
      parameters.push_back(same != kNoIndex
                               ? parameters[same]
                               : expected.leaf(p).detach().clone().requires_grad_(true));
      of_store.push_back(same == kNoIndex && expected.is_trainable(p) ? p : kNoIndex);
    }
    Tensors values(graph_.values.size());
    Tensors wanted;
    std::vector<uint32_t> row_values;
    for (uint32_t v = 0; v < values.size(); ++v) {
      if (graph_.values[v].source_kind == TENON_SOURCE_BATCH) {
        values[v] = *batch.find(graph_.values[v].source);
      } else if (graph_.values[v].lookup.has_value()) {
        values[v] = rows_of(v, rank, microbatch).requires_grad_(true);
        row_values.push_back(v);
        wanted.push_back(values[v]);
      }
    }
    const at::Tensor total = total_of(values, parameters, microbatch);
    for (uint32_t p = 0; p < parameters.size(); ++p) {
      if (of_store[p] != kNoIndex) {
        wanted.push_back(parameters[p]);
      }
    }
    if (!total.requires_grad() || wanted.empty()) {
      return values;
    }
    const Tensors grads = torch::autograd::grad({total}, wanted, {}, std::nullopt, false, true);
    size_t next = 0;
    for (const uint32_t v : row_values) {
      row_grads[v] = grads[next++];
    }
    for (uint32_t p = 0; p < parameters.size(); ++p) {
      if (of_store[p] != kNoIndex && grads[next].defined()) {
        expected.add_grad(p, grads[next]);
      }
      next += of_store[p] != kNoIndex ? 1 : 0;
    }
    return values;
  }

  ParameterLayout layout(const RankRole& role) const {
    ParameterLayout layout = whole_layout();
    layout.sharing = sharing_of({.stage = of_.stage, .reshard_after_forward = of_.reshard}, role);
    layout.role = role;
    return layout;
  }
  ParameterLayout whole_layout() const {
    ParameterLayout layout;
    layout.dtype = at::kDouble;
    layout.partition_of = [](uint32_t) { return 0U; };
    layout.is_unsharded = [this](uint32_t p) { return p % 5 == of_.unsharded; };
    return layout;
  }
  static ExecBase exec_base() {
    ExecBase base;
    base.seed = 3;
    base.compute_dtype = at::kDouble;
    return base;
  }

 private:
  static ShardingOptions options(const RunCase& of) {
    ShardingOptions options;
    options.reshard_after_forward = of.reshard;
    options.bucket_bytes = 64;
    return options;
  }
  static ModelGraph graph_of(ModelProxy& proxy, const RunCase& of, const RankRole& role) {
    ModelGraph graph = describe_model(proxy);
    for (uint32_t v = 0; v < graph.values.size(); ++v) {
      graph.values[v].is_read = std::ranges::find(of.read, v) != of.read.end();
    }
    for (uint32_t b = 0; b < of.stages.size(); ++b) {
      graph.blocks[b].stage = of.stages[b];
    }
    if (!of.owners.empty()) {
      cut_stages(graph, of.owners, role.pipeline());
    }
    return graph;
  }

  // Sets the values that blocks make. A state buffer has counted the forwards before this one.
  at::Tensor total_of(Tensors& values, const Tensors& parameters, uint32_t microbatch) {
    at::Tensor total = at::zeros({}, at::kDouble);
    for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
      const ModelBlock& block = graph_.blocks[b];
      Tensors inputs;
      Tensors own;
      for (const uint32_t v : block.inputs) {
        inputs.push_back(values[v]);
      }
      for (const uint32_t p : block.parameters) {
        own.push_back(parameters[p]);
      }
      const Tensors outputs = model_.outputs_of(b, inputs, own, model_.state_at(b, microbatch));
      for (size_t i = 0; i < outputs.size(); ++i) {
        values[block.outputs[i]] = outputs[i];
      }
      if (const auto aux = model_.aux_of(b, outputs)) {
        total = total + kAuxScale * *aux;
      }
    }
    for (const uint32_t v : of_.read) {
      total = total + values[v].sum() * factor_of(v);
    }
    return total;
  }

  const RunCase& of_;
  const uint32_t rank_;
  RandomModel model_;
  ModelProxy proxy_;
  ModelGraph graph_;

 public:
  ParameterStore store;
  ShardedParameters sharded;
  RowsAtRandom rows;
  StageExchange exchange;
  ProgramRunner runner;
};

inline bool are_near(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) {
    const at::Tensor& other = a.defined() ? a : b;
    return !other.defined() || other.abs().max().item<double>() == 0;
  }
  return a.sizes() == b.sizes() && at::allclose(a, b, 1e-10, 1e-12);
}

}  // namespace tenon
