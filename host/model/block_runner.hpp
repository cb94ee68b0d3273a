// SPDX-License-Identifier: Apache-2.0
//
// Calls one block of a model through the ABI: its forward under a separate autograd graph, and
// its backward, by autograd or written by hand. Checks what the plugin returns. It knows nothing of
// the other blocks. Threads: owned and driven by the train thread.
#pragma once

#include "host/model/parameter_store.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class ModelProxy;

// An auxiliary loss that a block added in the forward.
struct AuxLoss {
  std::string name;
  at::Tensor sum;    // with graph, where one was recorded
  at::Tensor count;  // scalar
  double weight = 1;
};

// What one block's forward leaves for its backward.
struct BlockTape {
  std::vector<at::Tensor> inputs;   // the leaves that the block was given
  std::vector<at::Tensor> outputs;  // as the block returned them
  std::vector<at::Tensor> saved;    // of a hand-written block
  std::vector<AuxLoss> aux;
  bool has_aux = false;  // stays true after `aux` is dropped for a recompute
  // Call arguments, kept to save allocations.
  std::vector<const tenon_tensor*> input_handles;
  std::vector<const tenon_tensor*> parameter_handles;
  std::vector<const tenon_tensor*> buffer_handles;
  std::vector<tenon_tensor*> output_handles;
  std::vector<tenon_tensor*> next_buffer_handles;

  // Drops what a forward left.
  void clear();
};

// What multiplies an auxiliary loss, beside its weight / count.
struct AuxScale {
  double factor = 1;
  at::Tensor loss_scale;  // []; undefined: none
};

// A gradient of a value, to be added to the gradients that the value already has.
struct ValueGrad {
  uint32_t value = 0;
  at::Tensor grad;
};

class BlockRunner {
 public:
  // `needs_grad`, by value: a trainable parameter lies upstream.
  // Errors: model.bad_graph: a hand-written block of a model without backward
  // Owner: all references outlive this object
  BlockRunner(ModelProxy& model,
              ParameterStore& store,
              const ExecBase& base,
              const std::vector<bool>& needs_grad);

  // A tape with the handles of the parameters and buffers of block `b`.
  BlockTape make_tape(uint32_t b) const;

  // Starts a microbatch of `num_samples` samples.
  void begin(const CallPlace& place, int64_t num_samples);

  struct Pass {
    bool records = false;       // under autograd
    bool is_recompute = false;  // changes no buffers
    uint32_t salt = 0;          // of the random numbers, see ExecFrame::seed_for
  };

  // Calls the block on `tape.inputs`; fills the outputs, saved tensors and auxiliary losses.
  // Errors: plugin.bad_result: outputs or buffers that differ from what the model declared; and
  // those of the plugin, with the block's name
  void forward(uint32_t b, const Pass& pass, BlockTape& tape);

  // Adds the gradients of the block's parameters to the store. Returns the gradients of its inputs
  // in the order in which one graph over the whole model would add them.
  // Shapes: grads[i] has that of output i; undefined: no gradient
  // Errors: as forward
  std::vector<ValueGrad> backward(uint32_t b,
                                  uint32_t salt,
                                  BlockTape& tape,
                                  const std::vector<at::Tensor>& grads,
                                  const AuxScale& aux_scale);

  // The dtype in which all but the block itself see a value; none where the block may choose.
  std::optional<at::ScalarType> border_dtype(uint32_t v) const;
  // An output, detached, as the next block is given it: what autocast narrowed is wide again.
  at::Tensor at_border(uint32_t v, const at::Tensor& output) const;

 private:
  struct Call;
  struct HandGrads;

  void check_output(uint32_t b, size_t i, const at::Tensor& output) const;
  std::string wrong_dtype(uint32_t v, const at::Tensor& output) const;
  std::string wrong_shape(const ModelValue& value, const at::Tensor& output) const;
  void check_buffer(uint32_t b, size_t i, const at::Tensor& next) const;
  void check_grad(uint32_t b,
                  const at::Tensor& grad,
                  at::IntArrayRef shape,
                  const std::string& name) const;
  std::vector<ValueGrad> backward_by_autograd(uint32_t b,
                                              BlockTape& tape,
                                              const std::vector<at::Tensor>& grads,
                                              const AuxScale& aux_scale);
  HandGrads call_backward(uint32_t b,
                          uint32_t salt,
                          const BlockTape& tape,
                          const std::vector<at::Tensor>& grads);
  std::vector<ValueGrad> backward_by_hand(uint32_t b,
                                          uint32_t salt,
                                          BlockTape& tape,
                                          const std::vector<at::Tensor>& grads);

  ModelProxy& model_;
  ParameterStore& store_;
  const ModelGraph& graph_;
  const std::vector<bool>& needs_grad_;
  ExecFrame frame_;
  at::ScalarType compute_dtype_;
  std::optional<at::ScalarType> autocast_dtype_;
  bool is_train_ = true;     // of the microbatch under way
  int64_t num_samples_ = 0;  // of the microbatch under way
};

}  // namespace tenon
