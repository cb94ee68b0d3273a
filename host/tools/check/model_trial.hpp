// SPDX-License-Identifier: Apache-2.0
//
// A model with parameters and a batch that it accepts, whose blocks are run one by one. The batch
// is the first one of the recipe's dataset, or a guess by the described values. Rows of tables are
// random numbers.
// Invariant: parameters have random numbers added to their initial values, so that none is zero.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/kernels/tensor_region.hpp"
#include "host/model/block_runner.hpp"
#include "host/model/graph.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/sequence_group.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/batch.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// How a block is called.
struct BlockCall {
  int64_t samples = 0;
  uint64_t step = 7;  // faults often show only after the first step
  bool is_train = true;
  bool is_recompute = false;
  // What ranks hold of the sequences, of which the inputs are a part; null: inputs are whole.
  const DividedSequences* divided = nullptr;
  // The ranks that run the block together; null: one rank runs it.
  TensorRanks* ranks = nullptr;
  std::vector<int64_t> pieces = {};  // positions that each of them holds; empty: all hold all
};

// Gradients of one block; undefined where there are none.
struct BlockGradients {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> parameters;
};

// Returns why a model is not checked: it is too large. Describes the instance, and destroys it.
//
// Errors   of describe; model.bad_graph
std::optional<std::string> why_not_checked(Subject& subject,
                                           const CheckedComponent& checked,
                                           ComponentInstance instance);

class ModelTrial {
 public:
  // Creates an instance that computes in `dtype`, and its parameters. With several tensor ranks,
  // they are those of one of the ranks, and blocks that cannot be divided run whole.
  //
  // Errors   of create, describe and materialize; model.bad_graph
  ModelTrial(Subject& subject,
             const CheckedComponent& checked,
             at::ScalarType dtype,
             RankIndex tensor = {});
  ModelTrial(const ModelTrial&) = delete;
  ModelTrial& operator=(const ModelTrial&) = delete;

  const ModelGraph& graph() const { return graph_; }
  const std::string& name() const { return name_; }
  const CheckedComponent& checked() const { return checked_; }
  at::ScalarType dtype() const { return base_.compute_dtype; }

  // Finds a batch for which all blocks run, in an evaluation. If it returns false, reason() says
  // why, and is_unsupported() if the model refuses the dtype.
  //
  // Errors   of the model, except statuses that refuse the shapes
  bool find_batch();
  const std::string& reason() const { return reason_; }
  bool is_unsupported() const { return is_unsupported_; }
  int64_t num_samples() const { return samples_; }

  // True if each field of the batch has samples on its first axis.
  bool is_per_sample() const;
  // Runs all blocks on the first samples of the batch, in an evaluation. Returns the values of the
  // graph. Fewer samples than the batch has need is_per_sample().
  std::vector<at::Tensor> run_all(int64_t samples);

  // Returns a few blocks, in order: those that a check of each block uses.
  std::vector<uint32_t> some_blocks() const;
  // True if gradients flow through the block.
  bool has_gradients(uint32_t b) const { return facts_.has_backward(b); }
  bool needs_gradient(uint32_t v) const { return facts_.has_gradient(v); }
  // Returns copies of the inputs of a block, of the batch that was found.
  std::vector<at::Tensor> inputs_of(uint32_t b) const;

  // Loads of experts in a balance loss are those of the last forward, over all ranks of the call.
  //
  // Errors   of the block
  BlockTape forward(uint32_t b, const std::vector<at::Tensor>& inputs, const BlockCall& call);
  // Runs backward of what forward() recorded. `grads` is by output. A gradient of a parameter is
  // what the block gives on this rank, before ranks add up their gradients.
  BlockGradients backward(uint32_t b, BlockTape& tape, const std::vector<at::Tensor>& grads);

  // Returns what the buffers of a block are if the step consists of the last forward, which was
  // called with is_train and without is_recompute.
  std::vector<at::Tensor> next_buffers(uint32_t b) const;
  bool is_summed(uint32_t buffer) const { return blocks_.sums().is_summed(buffer); }

  // Returns an auxiliary loss of the last forward, times its weight.
  double value_of(const AuxLoss& aux) const;

  ParameterStore& store() { return store_; }
  ModelProxy& proxy() { return proxy_; }
  const ExecBase& base() const { return base_; }
  // Returns a value of the batch that was found; undefined for an optional input that it lacks.
  const at::Tensor& value(uint32_t v) const { return values_[v]; }
  // Copies the values of parameters and buffers, and the batch, in the dtype of this trial. `other`
  // has whole parameters.
  void take_over(ModelTrial& other);
  // Moves each parameter to other memory, and makes the old memory NaN.
  void move_parameters();

 private:
  class RunAll;

  std::vector<at::Tensor> guessed_values(const InputGuess& guess, std::mt19937_64& generator) const;
  std::vector<at::Tensor> values_of(const Batch& batch) const;
  std::optional<Batch> batch_of_recipe();
  bool accepts(std::vector<at::Tensor> given, int64_t samples, RefusedInputs& refused);
  at::Tensor rows_of(uint32_t v, int64_t samples, const std::vector<at::Tensor>& values);
  bool has_samples(uint32_t v) const;
  void add_noise();

  Subject& subject_;
  const CheckedComponent& checked_;
  std::string name_;
  ExecBase base_;
  ModelProxy proxy_;
  ModelGraph graph_;
  ParameterStore store_;
  ExecFrame frame_;
  GraphFacts facts_;
  BlockRunner blocks_;
  std::vector<at::Tensor> given_;         // by value: fields of the batch; rows, once they are used
  std::vector<at::Tensor> values_;        // by value, of the batch that was found
  std::vector<at::Tensor> next_buffers_;  // by buffer, after the last forward
  int64_t samples_ = 0;
  std::optional<Batch> batch_;  // of the recipe
  std::string reason_;
  bool is_unsupported_ = false;
};

}  // namespace tenon
