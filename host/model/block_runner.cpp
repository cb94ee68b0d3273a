// SPDX-License-Identifier: Apache-2.0
//
// Source: docs/decisions/0001-block-contract.md describes one autograd graph per block.
#include "host/model/block_runner.hpp"

#include <tenon/model.h>

#include "host/device/autocast_guard.hpp"
#include "host/device/random_state.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/model/block_call.hpp"
#include "host/model/divided_graph.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/plugin/plugin_gradients.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/trace_span.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace tenon {

void BlockTape::clear() {
  inputs.clear();
  outputs.clear();
  saved.clear();
  buffers.clear();
  aux.clear();
  has_aux = false;
  pieces.clear();
  attention.clear();
}

// The host's side of tenon_forward_args; `impl` points to it.
struct BlockRunner::Call {
  tenon_forward_args args{};
  BlockTape* tape = nullptr;
  const StepSums* sums = nullptr;
  uint32_t block = 0;       // of the graph
  bool is_trained = true;   // the block is one of the trained model
  size_t num_balances = 0;  // that the block has added

  static tenon_status* save(tenon_forward_args* args, const tenon_tensor* tensor) {
    return guard(nullptr, [&] {
      if (args == nullptr || tensor == nullptr) {
        throw Error("plugin.bad_result", "save was given a null argument");
      }
      static_cast<Call*>(args->impl)->tape->saved.push_back(tensor_of(tensor));
    });
  }

  static tenon_status* add_loss(tenon_forward_args* args,
                                const char* name,
                                const tenon_tensor* sum,
                                const tenon_tensor* count,
                                double weight) {
    return guard(nullptr, [&] {
      if (args == nullptr || name == nullptr || sum == nullptr || count == nullptr) {
        throw Error("plugin.bad_result", "add_loss was given a null argument");
      }
      Call& call = *static_cast<Call*>(args->impl);
      if (!call.is_trained) {
        return;
      }
      AuxLoss aux{name, tensor_of(sum), tensor_of(count).detach(), weight, {}, call.block};
      const std::optional<int64_t> experts = call.sums->num_experts(call.block, call.num_balances);
      if (experts.has_value() && aux.sum.dim() == 1 && aux.count.dim() == 1 &&
          aux.sum.numel() == *experts && aux.count.numel() == *experts + 1) {
        aux.balance = call.num_balances++;
      } else if (aux.sum.numel() != 1 || aux.count.numel() != 1) {
        throw Error("plugin.bad_result",
                    std::string("auxiliary loss '") + name + "': sum and count must be scalars" +
                        (experts.has_value()
                             ? formatted(", or the shares [{}] and loads [{}] of a balance loss",
                                         *experts,
                                         *experts + 1)
                             : std::string()));
      }
      call.tape->aux.push_back(std::move(aux));
    });
  }
};

// Gradients requested from and returned by a hand-written backward; undefined: not returned.
struct BlockRunner::HandGrads {
  std::vector<bool> wants_input;
  std::vector<bool> wants_parameter;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> parameters;
};

namespace {

std::vector<uint32_t> array_of(const std::vector<bool>& flags) {
  return {flags.begin(), flags.end()};
}

}  // namespace

BlockRunner::BlockRunner(ModelList models,
                         ParameterStore& store,
                         const ModelGraph& graph,
                         const ExecBase& base,
                         const std::vector<bool>& needs_grad)
    : models_(std::move(models)),
      store_(store),
      graph_(graph),
      needs_grad_(needs_grad),
      sums_(models_[0].instance(), graph, store),
      compute_dtype_(base.compute_dtype),
      autocast_dtype_(base.autocast_dtype) {
  for (size_t i = 0; i < models_.size(); ++i) {
    frames_.emplace_back(models_[i].instance().host(), base);
  }
  for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
    const ModelBlock& block = graph_.blocks[b];
    if (block.has(TENON_BLOCK_HAND_WRITTEN) && !models_.of(block).has_backward()) {
      throw Error("model.bad_graph",
                  "block '" + block.name + "' is hand-written, but the model has no backward");
    }
    weights_.emplace_back(store, graph, b, base);
  }
}

void BlockRunner::run_whole(std::vector<bool> is_whole, uint32_t rank) {
  is_whole_ = std::move(is_whole);
  rank_ = rank;
  for (uint32_t b = 0; b < weights_.size(); ++b) {
    weights_[b].use_stream_before(this->is_whole(b) ? rank : 0);
  }
}

RankIndex BlockRunner::tensor_rank() const {
  return tensor_ranks_ != nullptr
             ? RankIndex{.index = tensor_ranks_->rank(), .count = tensor_ranks_->size()}
             : RankIndex{};
}

TensorRegionPtr BlockRunner::new_region(uint32_t b, const std::vector<int64_t>& pieces) const {
  if (tensor_ranks_ == nullptr) {
    return tensor_region();
  }
  const ModelBlock& block = graph_.blocks[b];
  if (!block.is_divided) {
    return {};
  }
  auto region = c10::make_intrusive<TensorRegion>();
  region->ranks = tensor_ranks_;
  region->block = block.name;
  region->pieces = pieces;
  return region;
}

uint64_t BlockRunner::seed_call(uint32_t b, uint32_t salt, const std::vector<int64_t>& pieces) {
  ExecFrame& frame = frame_of(b);
  frame.use_stream_before(is_whole(b) ? rank_ : 0);
  frame.use_piece(pieces.empty() ? 0 : tensor_rank().index);
  return frame.seed_for(salt);
}

BlockTape BlockRunner::make_tape(uint32_t b) const {
  BlockTape tape;
  for (const uint32_t p : graph_.blocks[b].declared_parameters()) {
    tape.parameter_handles.push_back(borrow(store_.leaf(p)));
  }
  return tape;
}

// A recompute reads the buffers of its forward: later forwards have replaced some of them.
void BlockRunner::lend_buffers(uint32_t b, bool is_recompute, BlockTape& tape) {
  const auto declared = graph_.blocks[b].declared_buffers();
  if (!is_recompute || tape.buffers.size() != declared.size()) {
    tape.buffers.clear();
    for (const uint32_t i : declared) {
      tape.buffers.push_back(store_.buffer(i));
    }
  }
  tape.buffer_handles = borrow_all(tape.buffers);
}

void BlockRunner::begin(const CallPoint& point,
                        int64_t num_samples,
                        const DividedSequences* divided) {
  divided_ = divided;
  is_train_ = point.is_train;
  num_samples_ = num_samples;
  const auto of_model = [&point](uint32_t model) {
    CallPoint result = point;
    result.is_train = point.is_train && model == 0;
    return result;
  };
  for (uint32_t i = 0; i < frames_.size(); ++i) {
    frames_[i].move_to(of_model(i));
  }
  for (uint32_t b = 0; b < weights_.size(); ++b) {
    weights_[b].move_to(of_model(graph_.blocks[b].model));
  }
}

void BlockRunner::forward(uint32_t b, const Pass& pass, BlockTape& tape) {
  const ModelBlock& block = graph_.blocks[b];
  const TraceSpan span(pass.is_recompute ? "recompute of block" : "block", block.name);
  tape.input_handles = borrow_all(tape.inputs);
  lend_buffers(b, pass.is_recompute, tape);
  OwnHandles output_handles(block.outputs.size());
  OwnHandles next_buffer_handles(block.declared_buffers().size());

  Call call{.tape = &tape, .sums = &sums_, .block = b, .is_trained = block.model == 0};
  tenon_forward_args& args = call.args;
  args.struct_size = sizeof(args);
  args.impl = &call;
  args.block = block.number;
  args.inputs = tape.input_handles.data();
  args.num_inputs = tape.input_handles.size();
  args.parameters = tape.parameter_handles.data();
  args.num_parameters = tape.parameter_handles.size();
  args.buffers = tape.buffer_handles.data();
  args.num_buffers = tape.buffer_handles.size();
  args.outputs_own = output_handles.data();
  args.num_outputs = output_handles.size();
  args.next_buffers_own = next_buffer_handles.data();
  args.save = &Call::save;
  args.add_loss = &Call::add_loss;

  // A recompute draws the same numbers: the seed depends only on step, microbatch and salt.
  tape.pieces = pass.pieces;
  piece_ = pass.pieces.empty() ? std::nullopt : std::optional(pass.pieces[tensor_rank().index]);
  ExecFrame& frame = frame_of(b);
  seed_default_generators(seed_call(b, pass.salt, pass.pieces), store_.device());
  frame.set_recompute(pass.is_recompute);
  std::vector<at::Tensor> next_buffers;
  try {
    const ComponentIdentity& identity = identity_of(b);
    const at::AutoGradMode mode(pass.records);
    const TensorRegionScope region(new_region(b, pass.pieces));
    const BlockWeights::Call weights = weights_for(b, pass.salt, pass.is_recompute, tape);
    const AutocastGuard autocast(store_.device(), autocast_dtype_);
    using Use = AttentionScope::Use;
    const AttentionScope kept(pass.keeps_attention ? &tape.attention : nullptr,
                              pass.is_recompute ? Use::kTake : Use::kKeep);
    const SequenceScope sequences(divided_ != nullptr && !is_whole(b) ? &divided_->parts : nullptr);
    models_.of(block).forward(frame.exec(), args);
    tape.outputs = output_handles.take(identity, "forward");
    next_buffers = next_buffer_handles.take(identity, "forward");
  } catch (const Error& error) {
    throw_with_context("block '" + block.name + "'", error);
  }
  for (size_t i = 0; i < tape.outputs.size(); ++i) {
    check_output(b, i, tape.outputs[i]);
  }
  share_aux_losses(b, tape);
  if (!is_train_ || pass.is_recompute || block.model != 0) {
    return;
  }
  take_buffers(b, tape, next_buffers);
}

std::optional<at::ScalarType> BlockRunner::border_dtype(uint32_t v) const {
  const uint32_t dtype = graph_.values[v].dtype;
  if (dtype == TENON_CLASS_COMPUTE) {
    return compute_dtype_;
  }
  return dtype < TENON_CLASS_FIRST ? std::optional(static_cast<at::ScalarType>(dtype))
                                   : std::nullopt;
}

at::Tensor BlockRunner::at_border(uint32_t v, const at::Tensor& output) const {
  const at::Tensor value = output.detach();
  return autocast_dtype_.has_value() ? value.to(border_dtype(v).value_or(value.scalar_type()))
                                     : value;
}

std::string BlockRunner::wrong_dtype(uint32_t v, const at::Tensor& output) const {
  const std::optional<at::ScalarType> wanted = border_dtype(v);
  if (!wanted.has_value() || output.scalar_type() == *wanted ||
      (autocast_dtype_ == output.scalar_type() && c10::isFloatingType(*wanted))) {
    return {};
  }
  const bool is_compute = graph_.values[v].dtype == TENON_CLASS_COMPUTE;
  return std::string("is ") + c10::toString(output.scalar_type()) +
         (is_compute ? ", but the run computes in " : ", but was declared as ") +
         c10::toString(*wanted);
}

std::string BlockRunner::wrong_shape(const ModelValue& value, const at::Tensor& output) const {
  if (!value.axes.has_value()) {
    return {};
  }
  if (tensor_ranks_ != nullptr && value.is_divided) {
    return wrong_shape(value, axes_of_part(value), output);
  }
  return wrong_shape(value, *value.axes, output);
}

std::vector<Axis> BlockRunner::axes_of_part(const ModelValue& value) const {
  std::vector<Axis> axes = *value.axes;
  Axis& divided = axes[value.split->axis];
  const ModelSplit along{.axis = 0, .parts = value.split->parts, .units = value.split->units};
  divided.size = divided_part(along, {divided.size}, tensor_rank(), value.name).size[0];
  return axes;
}

std::string BlockRunner::wrong_shape(const ModelValue& value,
                                     const std::vector<Axis>& axes,
                                     const at::Tensor& output) const {
  bool fits = static_cast<size_t>(output.dim()) == axes.size();
  for (size_t d = 0; fits && d < axes.size(); ++d) {
    const bool is_cut = axes[d].name == "T" && (divided_ != nullptr || piece_.has_value());
    const int64_t wanted = is_cut                ? (value.is_divided ? -1 : piece_.value_or(-1))
                           : axes[d].size >= 0   ? axes[d].size
                           : axes[d].name == "B" ? num_samples_
                                                 : -1;
    fits = wanted < 0 || wanted == output.size(static_cast<int64_t>(d));
  }
  if (fits) {
    return {};
  }
  return formatted("has the shape {}, but was declared as {}, in a batch of {} samples",
                   shape_text(output.sizes()),
                   describe({value.dtype, &axes}),
                   num_samples_);
}

void BlockRunner::refuse_aux_losses(uint32_t b, const BlockTape& tape, const char* how) const {
  const ModelBlock& block = graph_.blocks[b];
  if (!tape.aux.empty() && block.model == 0) {
    identity_of(b).fail_result("block '" + block.name +
                               "' adds an auxiliary loss, and can therefore not be run by " + how);
  }
}

void BlockRunner::check_output(uint32_t b, size_t i, const at::Tensor& output) const {
  const ModelBlock& block = graph_.blocks[b];
  const uint32_t v = block.outputs[i];
  const ModelValue& value = graph_.values[v];
  std::string wrong;
  if (!output.defined()) {
    wrong = "was not returned";
  } else if (output.device() != store_.device()) {
    wrong = "is on " + output.device().str() + ", but the run is on " + store_.device().str();
    if (const std::string names = weights_[b].names_of_stand_ins();
        output.is_meta() && !names.empty()) {
      wrong =
          "is not computed from the elements of " + names +
          ", which the model flags as TENON_PARAM_LINEAR: use such a parameter only as a weight "
          "of tenon::linear and tenon::gated_mlp, or remove the flag";
    }
  } else if (wrong = wrong_dtype(v, output); wrong.empty()) {
    wrong = wrong_shape(value, output);
  }
  if (!wrong.empty()) {
    identity_of(b).fail_result("output '" + value.name + "' of block '" + block.name + "' " +
                               wrong);
  }
}

void BlockRunner::check_buffer(uint32_t b, size_t i, const at::Tensor& next) const {
  const ModelBlock& block = graph_.blocks[b];
  const at::Tensor& buffer = store_.buffer(block.buffers[i]);
  const ModelBuffer& declared = graph_.buffers[block.buffers[i]];
  if (declared.kind == TENON_BUFFER_CONSTANT && !sums_.is_summed(block.buffers[i])) {
    identity_of(b).fail_result("block '" + block.name + "' gave a next value for its buffer '" +
                               declared.name + "', which it declared as constant");
  }
  if (next.scalar_type() != buffer.scalar_type() &&
      !(next.is_floating_point() && buffer.is_floating_point())) {
    identity_of(b).fail_result(
        "block '" + block.name + "' gave " + c10::toString(next.scalar_type()) +
        " for its buffer '" + declared.name + "', which is " + c10::toString(buffer.scalar_type()));
  }
  if (next.sizes() != buffer.sizes() || next.device() != buffer.device()) {
    identity_of(b).fail_result(
        "block '" + block.name + "' gave for its buffer '" + graph_.buffers[block.buffers[i]].name +
        "' " + shape_text(next.sizes()) + " on " + next.device().str() + "; the buffer is " +
        shape_text(buffer.sizes()) + " on " + buffer.device().str());
  }
}

void BlockRunner::check_grad(uint32_t b,
                             const at::Tensor& grad,
                             at::IntArrayRef shape,
                             const std::string& name) const {
  if (grad.sizes() != shape || grad.device() != store_.device() || !grad.is_floating_point()) {
    identity_of(b).fail_result("backward of block '" + graph_.blocks[b].name +
                               "' gave a gradient of " + shape_text(grad.sizes()) + " " +
                               c10::toString(grad.scalar_type()) + " on " + grad.device().str() +
                               " for '" + name + "', which is " + shape_text(shape) + " on " +
                               store_.device().str());
  }
}

std::vector<ValueGrad> BlockRunner::backward(uint32_t b,
                                             uint32_t salt,
                                             BlockTape& tape,
                                             const std::vector<at::Tensor>& grads,
                                             const AuxScale& aux_scale) {
  return graph_.blocks[b].has(TENON_BLOCK_HAND_WRITTEN)
             ? backward_by_hand(b, salt, tape, grads)
             : backward_by_autograd(b, tape, grads, aux_scale);
}

at::Tensor BlockRunner::seed_of(const AuxLoss& aux, const AuxScale& scale) const {
  const at::Tensor& count = aux.whole_count.defined() ? aux.whole_count : aux.count;
  at::Tensor seed = aux.balance.has_value() ? aux.weight * sums_.factors(aux.block, *aux.balance)
                                            : scale.factor * aux.weight / count.to(at::kDouble);
  if (scale.loss_scale.defined()) {
    seed = seed * scale.loss_scale;
  }
  return seed.to(aux.sum.device(), aux.sum.scalar_type()).view_as(aux.sum);
}

void BlockRunner::add_grad(uint32_t b,
                           const BlockTape& tape,
                           uint32_t parameter,
                           const at::Tensor& grad) {
  const bool has_it = tensor_ranks_ == nullptr ||
                      adds_gradient(graph_, b, parameter, tensor_rank(), !tape.pieces.empty());
  if (counts(b) && has_it) {
    store_.add_grad(parameter, grad);
  }
}

// Tied parameters of a block are one leaf, whose gradient is that of all its uses.
std::vector<uint32_t> BlockRunner::trained_leaves(uint32_t b) const {
  std::vector<uint32_t> leaves;
  for (const uint32_t p : graph_.blocks[b].parameters) {
    const bool is_listed = std::ranges::any_of(
        leaves, [this, p](uint32_t other) { return store_.leaf(other).is_same(store_.leaf(p)); });
    if (store_.is_trainable(p) && !is_listed) {
      leaves.push_back(p);
    }
  }
  return leaves;
}

std::vector<ValueGrad> BlockRunner::backward_by_autograd(uint32_t b,
                                                         BlockTape& tape,
                                                         const std::vector<at::Tensor>& grads,
                                                         const AuxScale& aux_scale) {
  const ModelBlock& block = graph_.blocks[b];
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> seeds;
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    if (grads[i].defined() && tape.outputs[i].requires_grad()) {
      outputs.push_back(tape.outputs[i]);
      seeds.push_back(grads[i].to(tape.outputs[i].scalar_type()));
    }
  }
  for (const AuxLoss& aux : tape.aux) {
    if (aux.sum.requires_grad()) {
      outputs.push_back(aux.sum);
      seeds.push_back(seed_of(aux, aux_scale));
    }
  }
  tape.outputs.clear();
  std::vector<at::Tensor> wrt;
  std::vector<size_t> wrt_inputs;
  for (size_t i = 0; i < tape.inputs.size(); ++i) {
    if (tape.inputs[i].defined() && tape.inputs[i].requires_grad()) {
      wrt.push_back(tape.inputs[i]);
      wrt_inputs.push_back(i);
    }
  }
  const std::vector<uint32_t> wrt_parameters = trained_leaves(b);
  for (const uint32_t p : wrt_parameters) {
    wrt.push_back(store_.leaf(p));
  }
  if (outputs.empty() || wrt.empty()) {
    return {};
  }
  std::vector<at::Tensor> result;
  try {
    result = plugin_gradients(identity_of(b), outputs, wrt, seeds);
  } catch (const Error& error) {
    throw_with_context("backward of block '" + block.name + "'", error);
  }
  for (size_t i = 0; i < wrt_parameters.size(); ++i) {
    const at::Tensor& grad = result[wrt_inputs.size() + i];
    if (grad.defined()) {
      add_grad(b, tape, wrt_parameters[i], grad);
    }
  }
  // Inputs from the last to the first: the order in which one graph would add them.
  std::vector<ValueGrad> of_inputs;
  for (size_t i = wrt_inputs.size(); i-- > 0;) {
    if (result[i].defined()) {
      of_inputs.push_back({block.inputs[wrt_inputs[i]], std::move(result[i])});
    }
  }
  return of_inputs;
}

BlockRunner::HandGrads BlockRunner::call_backward(uint32_t b,
                                                  uint32_t salt,
                                                  const BlockTape& tape,
                                                  const std::vector<at::Tensor>& grads) {
  const ModelBlock& block = graph_.blocks[b];
  HandGrads result;
  for (const uint32_t v : block.inputs) {
    result.wants_input.push_back(needs_grad_[v]);
  }
  for (const uint32_t p : block.parameters) {
    result.wants_parameter.push_back(store_.is_trainable(p));
  }
  const auto saved = borrow_all(tape.saved);
  const auto grad_outputs = borrow_all(grads);
  const auto want_inputs = array_of(result.wants_input);
  const auto want_parameters = array_of(result.wants_parameter);
  OwnHandles grad_inputs(block.inputs.size());
  OwnHandles grad_parameters(block.parameters.size());

  tenon_backward_args args{};
  args.struct_size = sizeof(args);
  args.block = block.number;
  args.saved = saved.data();
  args.num_saved = saved.size();
  args.parameters = tape.parameter_handles.data();
  args.num_parameters = tape.parameter_handles.size();
  args.grad_outputs = grad_outputs.data();
  args.num_outputs = grad_outputs.size();
  args.want_grad_inputs = want_inputs.data();
  args.num_inputs = block.inputs.size();
  args.want_grad_parameters = want_parameters.data();
  args.grad_inputs_own = grad_inputs.data();
  args.grad_parameters_own = grad_parameters.data();
  ExecFrame& frame = frame_of(b);
  seed_call(b, salt, tape.pieces);
  frame.set_recompute(false);
  try {
    // Autocast as in forward: a hand-written backward uses its operators and saved tensors.
    const TensorRegionScope region(new_region(b, tape.pieces));
    const AutocastGuard autocast(store_.device(), autocast_dtype_);
    models_.of(block).backward(frame.exec(), args);
    result.inputs = grad_inputs.take(identity_of(b), "backward");
    result.parameters = grad_parameters.take(identity_of(b), "backward");
  } catch (const Error& error) {
    throw_with_context("backward of block '" + block.name + "'", error);
  }
  return result;
}

std::vector<ValueGrad> BlockRunner::backward_by_hand(uint32_t b,
                                                     uint32_t salt,
                                                     BlockTape& tape,
                                                     const std::vector<at::Tensor>& grads) {
  const ModelBlock& block = graph_.blocks[b];
  const HandGrads result = call_backward(b, salt, tape, grads);
  std::vector<ValueGrad> of_inputs;
  for (size_t i = 0; i < result.inputs.size(); ++i) {
    if (result.inputs[i].defined() && result.wants_input[i]) {
      const uint32_t v = block.inputs[i];
      check_grad(b, result.inputs[i], tape.inputs[i].sizes(), graph_.values[v].name);
      of_inputs.push_back({v, result.inputs[i]});
    }
  }
  for (size_t i = 0; i < result.parameters.size(); ++i) {
    if (result.parameters[i].defined() && result.wants_parameter[i]) {
      const ModelParameter& parameter = graph_.parameters[block.parameters[i]];
      check_grad(b, result.parameters[i], parameter.shape_in_block(), parameter.name);
      add_grad(b, tape, block.parameters[i], result.parameters[i]);
    }
  }
  return of_inputs;
}

}  // namespace tenon
