// SPDX-License-Identifier: Apache-2.0
//
// Programs of models at random, with every setting that shapes a program: against one autograd
// graph over the same functions, and microbatches in flight at the same time against one after the
// other.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <map>
#include <string>
#include <vector>

#include "tests/host/model/random_runs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// The slice of a whole group that a rank keeps.
at::Tensor slice_of(const FlatGroup& group, const at::Tensor& whole) {
  at::Tensor padded = at::zeros({group.numel()}, whole.options());
  padded.narrow(0, 0, whole.numel()).copy_(whole);
  return padded.narrow(0, group.sharing().slice * group.slice_numel(), group.slice_numel());
}

// What one rank found wrong; "" is nothing. Assertions are for the thread of the test.
std::string compare_with_whole_graph(const RunCase& of, RankGroups& ranks) {
  CaseRank rank(of, ranks);
  const uint32_t r = ranks.role().rank();
  RankGroups alone;
  ParameterStore expected(rank.store.graph(), rank.whole_layout());
  ShardedParameters collected(expected, alone, {});
  CaseRank model(of, alone);
  model.initialise(expected);
  std::string wrong;
  MicrobatchState state = rank.runner.new_state();
  for (uint32_t m = 0; m < kMicrobatches; ++m) {
    for (uint32_t other = 0; other < of.size(); ++other) {
      const Batch batch = model.batch_of(other, m);
      std::map<uint32_t, at::Tensor> row_grads;
      Tensors values;
      if (batch.samples > 0) {
        values = model.whole_graph(batch, other, m, expected, row_grads);
      }
      if (other != r) {
        continue;
      }
      SumOfValues losses(of.read);
      rank.runner.forward(state, batch, {1, m, true}, of.losses());
      for (uint32_t v = 0; v < values.size(); ++v) {
        if (state.value(v).defined() && !are_near(state.value(v), values[v].detach())) {
          wrong += " value " + std::to_string(v);
        }
      }
      rank.runner.run_losses(state, losses);
      rank.runner.backward(state, &losses, {kAuxScale, {}}, m + 1 == kMicrobatches);
      for (const auto& [v, grad] : row_grads) {
        if (!are_near(rank.rows.grads[{m, v}], grad)) {
          wrong += " gradient of rows " + std::to_string(v);
        }
      }
    }
  }
  rank.sharded.finish_gradients();
  collected.finish_gradients();
  for (size_t g = 0; g < rank.store.groups().size(); ++g) {
    FlatGroup& group = rank.store.groups()[g];
    if (group.is_trainable() &&
        !are_near(group.grad(), slice_of(group, expected.groups()[g].grad()))) {
      wrong += " gradients of " + group.name();
    }
    if (group.has_whole() != group.sharing().keeps_parameters) {
      wrong += " " + group.name() + " stays whole";
    }
  }
  return wrong;
}

// Runs both microbatches, in turn or at the same time. Returns what is left in the store and the
// values after each forward. `order`: 'F' starts the next microbatch, and runs its losses; 'B' runs
// the backward of the oldest.
Tensors run_in_order(const RunCase& of, RankGroups& ranks, const std::string& order) {
  CaseRank rank(of, ranks);
  const uint32_t r = ranks.role().rank();
  std::vector<MicrobatchState> states;
  std::vector<Batch> batches;
  std::vector<SumOfValues> losses(kMicrobatches, SumOfValues(of.read));
  for (uint32_t m = 0; m < kMicrobatches; ++m) {
    states.push_back(rank.runner.new_state());
    batches.push_back(rank.batch_of(r, m));
  }
  Tensors seen;
  uint32_t next = 0;
  uint32_t oldest = 0;
  for (const char step : order) {
    if (step == 'F') {
      rank.runner.forward(states[next], batches[next], {1, next, true}, of.losses());
      for (uint32_t v = 0; v < rank.store.graph().values.size(); ++v) {
        seen.push_back(states[next].value(v).defined() ? states[next].value(v).clone()
                                                       : at::Tensor());
      }
      rank.runner.run_losses(states[next], losses[next]);
      ++next;
    } else {
      const bool ends_step = oldest + 1 == kMicrobatches;
      rank.runner.backward(states[oldest], &losses[oldest], {kAuxScale, {}}, ends_step);
      ++oldest;
    }
  }
  rank.sharded.finish_gradients();
  for (FlatGroup& group : rank.store.groups()) {
    seen.push_back(group.is_trainable() ? group.grad().clone() : at::Tensor());
    seen.push_back(at::scalar_tensor(group.has_whole() ? 1.0 : 0.0));
  }
  for (uint32_t i = 0; i < rank.store.graph().buffers.size(); ++i) {
    seen.push_back(rank.store.buffer(i).clone());
  }
  for (const auto& [of_rows, grad] : rank.rows.grads) {
    seen.push_back(grad);
  }
  return seen;
}

bool are_equal(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || at::equal(a, b));
}

}  // namespace

TEST_CASE("microbatches in flight at the same time give the bits of one after the other",
          "[model][ranks]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RunCase of = random_run(seed);
    std::vector<Tensors> in_turn(of.size());
    std::vector<Tensors> together(of.size());
    const MeshDegrees degrees = {.replicate = of.replicate, .shard = of.shard};
    run_ranks(degrees, of.size(), [&](RankGroups& ranks) {
      in_turn[ranks.role().rank()] = run_in_order(of, ranks, "FBFB");
    });
    run_ranks(degrees, of.size(), [&](RankGroups& ranks) {
      together[ranks.role().rank()] = run_in_order(of, ranks, "FFBB");
    });
    for (uint32_t r = 0; r < of.size(); ++r) {
      INFO("seed " << seed << ", rank " << r);
      REQUIRE(in_turn[r].size() == together[r].size());
      for (size_t i = 0; i < in_turn[r].size(); ++i) {
        INFO("tensor " << i);
        // Chunks add gradients of the last block's parameters with the losses: in another order.
        CHECK((of.options.loss_chunk > 0 ? are_near(in_turn[r][i], together[r][i])
                                         : are_equal(in_turn[r][i], together[r][i])));
      }
    }
  }
}

TEST_CASE("programs of random models give the gradients of one graph", "[model][ranks]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RunCase of = random_run(seed);
    std::vector<std::string> wrong(of.size());
    run_ranks({.replicate = of.replicate, .shard = of.shard}, of.size(), [&](RankGroups& ranks) {
      wrong[ranks.role().rank()] = compare_with_whole_graph(of, ranks);
    });
    for (uint32_t r = 0; r < of.size(); ++r) {
      INFO("seed " << seed << ", rank " << r);
      CHECK(wrong[r] == "");
    }
  }
}

}  // namespace tenon
