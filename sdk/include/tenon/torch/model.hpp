// SPDX-License-Identifier: Apache-2.0
//
// Models written as functions on at::Tensor over declared parameters:
//
//     void describe(tenon::TorchGraph& g) override {
//       const auto x = g.input("x", {"B", 64}, TENON_CLASS_COMPUTE);
//       const auto w = g.parameter("linear.weight", {10, 64}, tenon::Init::normal(0, 0.02));
//       g.block("linear", {x}, {g.value("logits", {"B", 10})}, {w},
//               [](const tenon::BlockCall& b) { return at::linear(b.input(0), b.parameter(0)); });
//     }
//
// The host owns the parameters and runs each block under a separate autograd graph; <tenon/model.h>
// defines the contract. For torch::nn::Module, see module.hpp.
#ifndef TENON_TORCH_MODEL_HPP
#define TENON_TORCH_MODEL_HPP

#include <tenon/cpp/model.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/step_sums.hpp>
#include <tenon/torch/tensor.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Replaces the handle in a slot for a result. If the new handle cannot be created, the slot is
 * empty.
 *
 * Errors   those of the host
 * Owner    the slot, of its handle */
inline void replace_own(const Host& host, tenon_tensor*& slot_own, const at::Tensor& value) {
  host.tensors().release(std::exchange(slot_own, nullptr));
  slot_own = wrap(host, value);
}

/* One forward of a block.
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of the forward, and only during it
 * Owner    borrowed until the forward returns */
class BlockCall {
 public:
  BlockCall(const Exec& exec, tenon_forward_args& args) : exec_(&exec), args_(&args) {}

  const Exec& exec() const { return *exec_; }
  bool is_train() const { return exec_->is_train(); }
  size_t num_inputs() const { return args_->num_inputs; }
  /* False if input i is an optional value that the batch lacks. */
  bool has_input(size_t i) const { return i < args_->num_inputs && args_->inputs[i] != nullptr; }
  /* Inputs, parameters and buffers, in the order of the block's lists. They must not be modified.
   */
  const at::Tensor& input(size_t i) const { return pick(args_->inputs, args_->num_inputs, i); }
  const at::Tensor& parameter(size_t i) const {
    return pick(args_->parameters, args_->num_parameters, i);
  }
  const at::Tensor& buffer(size_t i) const { return pick(args_->buffers, args_->num_buffers, i); }

  /* Keeps a tensor for the block's own backward, in call order. Only for hand-written blocks. */
  void save(const at::Tensor& tensor) const {
    exec_->host().check(args_->save(args_, borrow(tensor)));
  }
  /* Sets the next value of a TENON_BUFFER_STATE buffer; ignored in an evaluation and in a
   * recompute. */
  void set_next_buffer(size_t i, const at::Tensor& value) const {
    TENON_CHECK(i < args_->num_buffers, "the block has ", args_->num_buffers, " buffers");
    if (exec_->is_train() && !exec_->is_recompute() && args_->next_buffers_own != nullptr) {
      replace_own(exec_->host(), args_->next_buffers_own[i], value);
    }
  }
  /* Adds an auxiliary loss: weight * sum / count, where `sum` has a gradient. Call it in every
   * forward, in the same order, also in a recompute. A recompute uses only its gradient and does
   * not count it twice.
   *
   * Shapes   sum and count: one element each
   * Errors   TENON_INVALID if a tensor is no scalar
   * Owner    the host takes references; `name` is copied */
  void add_loss(const char* name,
                const at::Tensor& sum,
                const at::Tensor& count,
                double weight) const {
    exec_->host().check(args_->add_loss(args_, name, borrow(sum), borrow(count), weight));
  }
  /* Adds a balance loss over the experts of a step, which `balance_losses` of the block declares:
   * weight * X * sum_i f_i P_i (draft/step_sums.h). The gradient flows through `shares`.
   *
   * Shapes   shares [X]: the sum of each expert's probability over tokens; loads [X]: the number of
   *          tokens of each expert
   * Errors   TENON_INVALID for other shapes
   * Owner    the host takes references; `name` is copied */
  void add_balance_loss(const char* name,
                        const at::Tensor& shares_X,
                        const at::Tensor& loads_X,
                        int64_t tokens,
                        double weight) const {
    const at::Tensor loads = loads_X.detach().to(at::kLong);
    add_loss(name, shares_X, at::cat({loads, at::full({1}, tokens, loads.options())}), weight);
  }

 private:
  static const at::Tensor& pick(const tenon_tensor* const* handles, size_t n, size_t i) {
    TENON_CHECK(i < n, "index ", i, " is out of range (the block has ", n, " of these)");
    TENON_CHECK(handles[i] != nullptr, "input ", i, " is absent: test has_input()");
    return unwrap(handles[i]);
  }

  const Exec* exec_;
  tenon_forward_args* args_;
};

/* One backward of a hand-written block.
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of the backward, and only during it
 * Owner    borrowed until the backward returns */
class BlockGradients {
 public:
  BlockGradients(const Exec& exec, const tenon_backward_args& args) : exec_(&exec), args_(&args) {}

  const Exec& exec() const { return *exec_; }
  size_t num_saved() const { return args_->num_saved; }
  /* Tensor i that the forward saved, in call order. */
  const at::Tensor& saved(size_t i) const {
    TENON_CHECK(i < args_->num_saved, "forward saved ", args_->num_saved, " tensors");
    return unwrap(args_->saved[i]);
  }
  const at::Tensor& parameter(size_t i) const {
    TENON_CHECK(i < args_->num_parameters, "the block has ", args_->num_parameters, " parameters");
    return unwrap(args_->parameters[i]);
  }
  /* False if no gradient flows through this output: it counts as zero. */
  bool has_grad_output(size_t i) const {
    return i < args_->num_outputs && args_->grad_outputs[i] != nullptr;
  }
  const at::Tensor& grad_output(size_t i) const {
    TENON_CHECK(has_grad_output(i), "there is no gradient of output ", i);
    return unwrap(args_->grad_outputs[i]);
  }
  bool wants_grad_input(size_t i) const {
    return i < args_->num_inputs && args_->want_grad_inputs[i];
  }
  bool wants_grad_parameter(size_t i) const {
    return i < args_->num_parameters && args_->want_grad_parameters[i];
  }
  /* Set the gradients. A gradient that is not wanted, or undefined, is ignored. An omitted gradient
   * means that there is none. */
  void set_grad_input(size_t i, const at::Tensor& grad) const {
    if (wants_grad_input(i)) {
      replace_own(exec_->host(), args_->grad_inputs_own[i], grad);
    }
  }
  void set_grad_parameter(size_t i, const at::Tensor& grad) const {
    if (wants_grad_parameter(i)) {
      replace_own(exec_->host(), args_->grad_parameters_own[i], grad);
    }
  }

 private:
  const Exec* exec_;
  const tenon_backward_args* args_;
};

/* The end of a step for one block with summed buffers.
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of `end_step`, and only during it
 * Owner    borrowed until the call returns */
class EndStepCall {
 public:
  EndStepCall(const Exec& exec, tenon_end_step_args& args) : exec_(&exec), args_(&args) {}

  const Exec& exec() const { return *exec_; }
  /* Buffer i of the block: the sum of the step for a step_sum, otherwise the value. */
  const at::Tensor& buffer(size_t i) const {
    TENON_CHECK(i < args_->num_buffers, "the block has ", args_->num_buffers, " buffers");
    return unwrap(args_->buffers[i]);
  }
  /* Sets the value of a TENON_BUFFER_STATE buffer after the step. */
  void set_next_buffer(size_t i, const at::Tensor& value) const {
    TENON_CHECK(i < args_->num_buffers, "the block has ", args_->num_buffers, " buffers");
    replace_own(exec_->host(), args_->next_buffers_own[i], value);
  }

 private:
  const Exec* exec_;
  tenon_end_step_args* args_;
};

/* Stores the outputs of a block in the arguments of its forward.
 *
 * Errors   TENON_INVALID for a wrong number of outputs or an undefined output */
inline void hand_over(const Exec& exec,
                      tenon_forward_args& args,
                      const std::vector<at::Tensor>& outputs) {
  TENON_CHECK(outputs.size() == args.num_outputs,
              "block ",
              args.block,
              " returned ",
              outputs.size(),
              " outputs (expected ",
              args.num_outputs,
              ", as declared)");
  for (size_t i = 0; i < outputs.size(); ++i) {
    TENON_CHECK(outputs[i].defined(), "output ", i, " of block ", args.block, " is undefined");
    args.outputs_own[i] = wrap(exec.host(), outputs[i]);
  }
}

using BlockForward = std::function<std::vector<at::Tensor>(const BlockCall&)>;
using BlockBackward = std::function<void(const BlockGradients&)>;
using BufferFill = std::function<void(at::Tensor&)>;
using BlockEndStep = std::function<void(const EndStepCall&)>;
/* A step of generation; see generation.hpp. */
class GenerationCall;
using BlockStep = std::function<std::vector<at::Tensor>(const GenerationCall&)>;

/* A Graph whose blocks and buffers come with the functions that compute them. Errors, threads and
 * ownership are those of Graph. */
class TorchGraph {
 public:
  explicit TorchGraph(Graph& graph) : graph_(&graph) {}

  /* As in Graph. */
  ValueId input(const std::string& name,
                Axes axes,
                uint32_t dtype,
                const std::string& field = {},
                const Split& split = {}) {
    return graph_->input(name, std::move(axes), dtype, field, split);
  }
  ValueId optional_input(const std::string& name,
                         Axes axes,
                         uint32_t dtype,
                         const std::string& field = {}) {
    return graph_->optional_input(name, std::move(axes), dtype, field);
  }
  ValueId value(const std::string& name,
                Axes axes,
                uint32_t dtype = TENON_CLASS_COMPUTE,
                const Split& split = {}) {
    return graph_->value(name, std::move(axes), dtype, split);
  }
  ParameterId parameter(const std::string& name,
                        const std::vector<int64_t>& shape,
                        Init init,
                        uint32_t flags = 0,
                        const Split& split = {}) {
    return graph_->parameter(name, shape, init, flags, split);
  }
  ParameterId tied_parameter(const std::string& name, const std::string& tied_to) {
    return graph_->tied_parameter(name, tied_to);
  }
  /* Returns the underlying graph, for lookups. */
  Graph& graph() { return *graph_; }

  /* Declares a buffer that is never written; `fill` sets its value once, on the CPU. */
  BufferId constant(const std::string& name,
                    const std::vector<int64_t>& shape,
                    uint32_t dtype,
                    BufferFill fill) {
    return add_buffer(name, shape, dtype, TENON_BUFFER_CONSTANT, std::move(fill));
  }
  /* Declares a buffer that is saved; a training forward sets its next value (`set_next_buffer`).
   * `fill` sets its initial value, on the CPU. */
  BufferId state(const std::string& name,
                 const std::vector<int64_t>& shape,
                 uint32_t dtype,
                 BufferFill fill) {
    return add_buffer(name, shape, dtype, TENON_BUFFER_STATE, std::move(fill));
  }
  /* Declares a state buffer whose increments are summed over the microbatches and ranks of a step,
   * such as a count of samples. A forward reads the value before the step. */
  BufferId summed_state(const std::string& name,
                        const std::vector<int64_t>& shape,
                        uint32_t dtype,
                        BufferFill fill) {
    const BufferId id = state(name, shape, dtype, std::move(fill));
    sums_.buffers.push_back(id.index);
    return id;
  }
  /* Declares a sum over the microbatches and ranks of a step. Each training forward returns what to
   * add (`set_next_buffer`); `end_step` of the block reads the sum. It is not saved. */
  BufferId step_sum(const std::string& name, const std::vector<int64_t>& shape, uint32_t dtype) {
    const BufferId id = constant(name, shape, dtype, [](at::Tensor& zeros) { zeros.zero_(); });
    sums_.buffers.push_back(id.index);
    return id;
  }

  /* Adds properties to a block. It is valid until the next block is added. */
  class BlockHandle {
   public:
    BlockHandle(TorchGraph& graph, size_t block) : graph_(&graph), block_(block) {}
    BlockHandle& buffers(std::vector<BufferId> ids) {
      graph_->blocks_[block_].spec.buffers = std::move(ids);
      return *this;
    }
    /* Sets flags, TENON_BLOCK_*. */
    BlockHandle& flags(uint32_t flags) {
      graph_->blocks_[block_].spec.flags |= flags;
      return *this;
    }
    /* Sets the unit: blocks of one unit follow each other, and are gathered and recomputed
     * together.
     */
    BlockHandle& unit(std::string name) {
      graph_->blocks_[block_].spec.unit = std::move(name);
      return *this;
    }
    /* Sets the step of generation, for a GeneratingModel: it runs on new positions, and has
     * `num_caches` caches. `function` takes a `const GenerationCall&` and returns what the forward
     * returns. */
    template <class Step>
    BlockHandle& step(size_t num_caches, Step function) {
      Block& block = graph_->blocks_[block_];
      block.num_caches = num_caches;
      if constexpr (std::is_convertible_v<std::invoke_result_t<Step, const GenerationCall&>,
                                          at::Tensor>) {
        block.step = [function = std::move(function)](const GenerationCall& call) {
          return std::vector<at::Tensor>{function(call)};
        };
      } else {
        block.step = std::move(function);
      }
      return *this;
    }
    /* Sets what follows from summed buffers of the block at the end of a step: `function` takes a
     * `const EndStepCall&`. */
    BlockHandle& end_step(BlockEndStep function) {
      graph_->blocks_[block_].end_step = std::move(function);
      return *this;
    }
    /* Declares the balance losses of the block, in the order of `add_balance_loss`: the number of
     * experts of each. */
    BlockHandle& balance_losses(std::vector<int64_t> num_experts) {
      graph_->blocks_[block_].balances = std::move(num_experts);
      return *this;
    }
    /* Sets a hand-written gradient: autograd does not record the forward. */
    BlockHandle& backward(BlockBackward function) {
      graph_->blocks_[block_].spec.flags |= TENON_BLOCK_HAND_WRITTEN;
      graph_->blocks_[block_].backward = std::move(function);
      return *this;
    }

   private:
    TorchGraph* graph_;
    size_t block_;
  };

  /* Declares a block; blocks run in declaration order. `forward` takes a `const BlockCall&` and
   * returns an at::Tensor, or a std::vector of them in the order of `outputs`. It may run several
   * times per microbatch and must keep nothing. */
  template <class Forward>
  BlockHandle block(const std::string& name,
                    std::vector<ValueId> inputs,
                    std::vector<ValueId> outputs,
                    std::vector<ParameterId> parameters,
                    Forward forward) {
    Block block{{name, std::move(inputs), std::move(outputs), std::move(parameters), {}, 0, {}},
                {},
                {},
                {},
                0,
                {},
                {}};
    if constexpr (std::is_convertible_v<std::invoke_result_t<Forward, const BlockCall&>,
                                        at::Tensor>) {
      block.forward = [forward = std::move(forward)](const BlockCall& call) {
        return std::vector<at::Tensor>{forward(call)};
      };
    } else {
      block.forward = std::move(forward);
    }
    blocks_.push_back(std::move(block));
    return {*this, blocks_.size() - 1};
  }

 private:
  friend class TorchModel;

  struct Block {
    BlockSpec spec;
    BlockForward forward;
    BlockBackward backward;
    BlockStep step;
    size_t num_caches;
    BlockEndStep end_step;
    std::vector<int64_t> balances;  // experts of each balance loss
  };

  BufferId add_buffer(const std::string& name,
                      const std::vector<int64_t>& shape,
                      uint32_t dtype,
                      uint32_t kind,
                      BufferFill fill) {
    const BufferId id = graph_->buffer(name, shape, dtype, kind);
    if (fills_.size() <= id.index) {
      fills_.resize(id.index + 1);
    }
    fills_[id.index] = std::move(fill);
    return id;
  }

  Graph* graph_;
  std::vector<Block> blocks_;
  std::vector<BufferFill> fills_;
  StepSumsInfo sums_;
};

/* A model of functional blocks.
 *
 * Threads  functions passed to the graph: [step]; fills: [main] */
class TorchModel : public Model {
 public:
  /* Declares the model.
   *
   * Errors   those of the graph, passed on
   * Threads  [main], once, before any other call */
  virtual void describe(TorchGraph& graph) = 0;

  void on_describe(Graph& graph) final {
    call_torch([&] {
      TorchGraph torch_graph(graph);
      describe(torch_graph);
      std::vector<TorchGraph::Block> by_index;
      for (TorchGraph::Block& block : torch_graph.blocks_) {
        const uint32_t index = graph.add_block(block.spec);
        if (by_index.size() <= index) {
          by_index.resize(index + 1);
        }
        for (const int64_t experts : block.balances) {
          torch_graph.sums_.balance_blocks.push_back(index);
          torch_graph.sums_.balance_experts.push_back(experts);
        }
        by_index[index] = std::move(block);
      }
      blocks_ = std::move(by_index);
      fills_ = std::move(torch_graph.fills_);
      sums_ = std::move(torch_graph.sums_);
    });
  }
  void on_forward(const Exec& exec, tenon_forward_args& args) final {
    call_torch([&] { hand_over(exec, args, block(args.block).forward(BlockCall(exec, args))); });
  }
  void on_backward(const Exec& exec, const tenon_backward_args& args) final {
    call_torch([&] {
      const TorchGraph::Block& b = block(args.block);
      TENON_CHECK(b.backward, "block ", b.spec.name, " has no hand-written backward");
      b.backward(BlockGradients(exec, args));
    });
  }
  void on_fill_buffer(const Exec& /*exec*/, const tenon_fill_buffer_args& args) final {
    TENON_CHECK(
        args.buffer < fills_.size() && fills_[args.buffer], "there is no buffer ", args.buffer);
    call_torch([&] { fills_[args.buffer](unwrap_mutable(args.tensor)); });
  }

  const void* extension(const char* id) override {
    return sums_.is_empty() ? nullptr : StepSumsCalls<TorchModel>::find(id);
  }
  const StepSumsInfo& step_sums() const { return sums_; }
  void on_end_step(const Exec& exec, tenon_end_step_args& args) {
    const TorchGraph::Block& b = block(args.block);
    if (b.end_step) {
      call_torch([&] { b.end_step(EndStepCall(exec, args)); });
    }
  }

 protected:
  /* For GeneratingModel. */
  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  const std::string& block_name(uint32_t index) const { return block(index).spec.name; }
  bool is_tokenwise(uint32_t index) const {
    return (block(index).spec.flags & TENON_BLOCK_TOKENWISE) != 0;
  }
  bool has_step(uint32_t index) const { return static_cast<bool>(block(index).step); }
  size_t num_caches(uint32_t index) const { return block(index).num_caches; }
  std::vector<at::Tensor> run_step(uint32_t index, const GenerationCall& call) const {
    return block(index).step(call);
  }

 private:
  const TorchGraph::Block& block(uint32_t index) const {
    TENON_CHECK(index < blocks_.size() && blocks_[index].forward, "there is no block ", index);
    return blocks_[index];
  }

  std::vector<TorchGraph::Block> blocks_;
  std::vector<BufferFill> fills_;
  StepSumsInfo sums_;
};

TENON_NAMESPACE_END

#endif
