// SPDX-License-Identifier: Apache-2.0
//
// What the trained model sums over the microbatches and ranks of a step: increments of buffers, and
// loads of experts for balance losses (tenon/draft/step_sums.h). Knows neither blocks nor calls.
// Invariant: integers are added as integers, so that these sums do not depend on the order.
// Threads: owned and driven by the train thread.
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/step_sums_proxy.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

class ParameterStore;

class StepSums {
 public:
  // `graph` has the blocks that are run, and the buffers of the store.
  // Errors  model.bad_graph for a buffer that the model does not have
  StepSums(const ComponentInstance& model, const ModelGraph& graph, ParameterStore& store);

  bool is_empty() const { return buffers_.empty() && balances_.empty(); }
  bool has_balances() const { return !balances_.empty(); }
  // The last block with a balance loss. Requires has_balances().
  uint32_t last_balanced_block() const { return balances_.back().block; }

  // ---- buffers ----

  bool is_summed(uint32_t buffer) const {
    return buffer < index_of_.size() && index_of_[buffer].has_value();
  }
  // Returns by how much a forward that returned `next` for a summed buffer increments the sum.
  // Shapes  next: the shape of the buffer; the result is contiguous, i64 or f64, and new
  at::Tensor increment_of(uint32_t buffer, const at::Tensor& next) const;
  void add(uint32_t buffer, const at::Tensor& increment);
  // The sums, for ranks to add up in place.
  std::vector<at::Tensor>& buffer_sums() { return sums_; }
  // Sets summed state buffers to their values after the step.
  void apply();
  // Returns a buffer as `end_step` reads it.
  at::Tensor at_end_of_step(uint32_t buffer) const;
  const std::optional<StepSumsProxy>& proxy() const { return proxy_; }

  // ---- balance losses: number k of block b ----

  // Returns the number of experts, or nothing if block `b` declares no more than `k` of them.
  std::optional<int64_t> num_experts(uint32_t b, size_t k) const;
  // Adds loads and number of tokens of one microbatch.
  // Shapes  loads [X + 1]
  void add_loads(uint32_t b, size_t k, const at::Tensor& loads);
  // Loads of all balance losses, for ranks to add up in place.
  // Shapes  [sum of X + 1] i64
  std::vector<at::Tensor>& load_sums() { return loads_; }
  // Returns d(loss / weight) / d(shares) at the loads of the step: X f_i / N.
  // Shapes  [X] f64
  at::Tensor factors(uint32_t b, size_t k) const;
  // Returns the number of tokens of the step: N.
  // Shapes  [] f64
  at::Tensor tokens(uint32_t b, size_t k) const;

  // Starts a step: nothing has been added.
  void clear();

 private:
  struct Balance {
    uint32_t block = 0;
    size_t number = 0;  // in its block
    int64_t num_experts = 0;
    int64_t begin = 0;  // in the loads
  };
  const Balance* find(uint32_t b, size_t k) const;

  ParameterStore& store_;
  std::optional<StepSumsProxy> proxy_;
  std::vector<uint32_t> buffers_;                // of the graph
  std::vector<std::optional<size_t>> index_of_;  // by buffer of the graph: index in `sums_`
  std::vector<at::Tensor> sums_;                 // i64 or f64
  std::vector<Balance> balances_;
  std::vector<at::Tensor> loads_;  // one tensor; none without balance losses
};

}  // namespace tenon
