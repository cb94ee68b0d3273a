// SPDX-License-Identifier: Apache-2.0
//
// Source: the way of running blocks under their own graphs is described in
// docs/decisions/0001-block-contract.md.
#include "host/model/model_runner.hpp"

#include <tenon/model.h>

#include "host/device/autocast_guard.hpp"
#include "host/device/random_state.hpp"
#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/model/row_source.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/plugin_gradients.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/trace_span.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <utility>

namespace tenon {

// What one block's forward leaves for its backward.
struct ModelRunner::Tape {
  std::vector<at::Tensor> inputs;   // the leaves that the block was given
  std::vector<at::Tensor> outputs;  // as the block returned them
  std::vector<at::Tensor> saved;    // of a hand-written block
  std::vector<AuxLoss> aux;
  bool has_aux = false;  // stays true where `aux` is made anew by a recompute
  // Call arguments, kept to save allocations.
  std::vector<const tenon_tensor*> input_handles;
  std::vector<const tenon_tensor*> parameter_handles;
  std::vector<const tenon_tensor*> buffer_handles;
  std::vector<tenon_tensor*> output_handles;
  std::vector<tenon_tensor*> next_buffer_handles;

  void clear() {
    inputs.clear();
    outputs.clear();
    saved.clear();
    aux.clear();
    has_aux = false;
  }
};

namespace {

at::Tensor as_leaf(const at::Tensor& value, bool needs_grad) {
  at::Tensor leaf = value.detach();
  if (needs_grad && c10::isFloatingType(leaf.scalar_type())) {
    leaf.set_requires_grad(true);
  }
  return leaf;
}

// The parameters of a block are here while this is, in a forward.
class FlowPass {
 public:
  FlowPass(ShardedParameters* flow, uint32_t block) : flow_(flow), block_(block) {
    if (flow_ != nullptr) {
      flow_->before_forward(block_);
    }
  }
  ~FlowPass() {
    if (flow_ != nullptr) {
      flow_->after_forward(block_);
    }
  }
  FlowPass(const FlowPass&) = delete;
  FlowPass& operator=(const FlowPass&) = delete;

 private:
  ShardedParameters* flow_;
  uint32_t block_;
};

}  // namespace

// The host's side of tenon_forward_args: finds its way back to the tape.
struct ModelRunner::Call {
  tenon_forward_args args{};
  Tape* tape = nullptr;

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
      if (tensor_of(sum).numel() != 1 || tensor_of(count).numel() != 1) {
        throw Error("plugin.bad_result",
                    std::string("auxiliary loss '") + name + "': sum and count must be scalars");
      }
      static_cast<Call*>(args->impl)
          ->tape->aux.push_back({name, tensor_of(sum), tensor_of(count).detach(), weight});
    });
  }
};

ModelRunner::ModelRunner(ModelProxy& model,
                         ParameterStore& store,
                         const ExecBase& base,
                         RecomputeMode recompute,
                         ShardedParameters* flow,
                         RowSource* rows)
    : model_(model),
      store_(store),
      graph_(store.graph()),
      frame_(model.instance().host(), base),
      compute_dtype_(base.compute_dtype),
      autocast_dtype_(base.autocast_dtype),
      recompute_(recompute),
      flow_(flow != nullptr && !flow->is_idle() ? flow : nullptr),
      rows_(rows),
      lookups_(graph_.blocks.size()),
      needs_grad_(gradient_paths(store).values),
      values_(graph_.values.size()),
      grads_(graph_.values.size()),
      tapes_(graph_.blocks.size()) {
  for (const auto b : c10::irange(static_cast<uint32_t>(graph_.blocks.size()))) {
    const ModelBlock& block = graph_.blocks[b];
    if (block.has(TENON_BLOCK_HAND_WRITTEN) && !model.has_backward()) {
      throw Error("model.bad_graph",
                  "block '" + block.name + "' is hand-written, but the model has no backward");
    }
    Tape& tape = tapes_[b];
    for (const uint32_t p : block.parameters) {
      tape.parameter_handles.push_back(borrow(store.leaf(p)));
    }
    for (const uint32_t i : block.buffers) {
      tape.buffer_handles.push_back(borrow(store.buffer(i)));
    }
  }
  for (const auto v : c10::irange(static_cast<uint32_t>(graph_.values.size()))) {
    const ModelValue& value = graph_.values[v];
    if (value.lookup.has_value() && !value.users.empty()) {
      TENON_ASSERT(rows_ != nullptr, "a model with lookups is run with tables");
      lookups_[value.users.front()].push_back(v);
    }
  }
}

ModelRunner::~ModelRunner() = default;

void check_model_fields(const ModelGraph& graph,
                        const std::vector<FieldInfo>& fields,
                        const std::string& dataset) {
  for (const ModelValue& value : graph.values) {
    if (value.source_kind != TENON_SOURCE_BATCH) {
      continue;
    }
    const auto found = std::find_if(
        fields.begin(), fields.end(), [&](const FieldInfo& f) { return f.name == value.source; });
    if (found == fields.end()) {
      throw Error("model.field_missing",
                  std::string("the model reads field '").append(value.source) + "', which " +
                      dataset + " does not have (it has: " + field_names(fields) + ")");
    }
    const Described want{value.dtype, value.axes.has_value() ? &*value.axes : nullptr};
    if (const auto difference = mismatch({found->dtype, &found->axes}, want)) {
      throw Error("model.field_mismatch",
                  "the model's input '" + value.source + "' and the field of " + dataset +
                      " differ: " + *difference);
    }
  }
}

at::Tensor ModelRunner::field_of(uint32_t v, const Batch& batch) const {
  const ModelValue& value = graph_.values[v];
  const at::Tensor* field = batch.find(value.source);
  TENON_ASSERT(field != nullptr, "fields are checked before the first step");
  if (value.dtype == TENON_CLASS_COMPUTE && field->is_floating_point()) {
    return field->to(compute_dtype_);
  }
  return *field;
}

bool ModelRunner::is_recomputed(uint32_t b) const {
  const bool is_piece = piece_.number > 0 && b == tail();  // small already
  return recompute_ == RecomputeMode::kBlocks && !is_piece &&
         !graph_.blocks[b].has(TENON_BLOCK_NO_RECOMPUTE | TENON_BLOCK_HAND_WRITTEN);
}

void ModelRunner::read_fields(const Batch& batch) {
  num_samples_ = static_cast<int64_t>(batch.samples);
  for (const auto v : c10::irange(static_cast<uint32_t>(graph_.values.size()))) {
    if (graph_.values[v].source_kind == TENON_SOURCE_BATCH && !graph_.values[v].users.empty()) {
      values_[v] = field_of(v, batch);
    }
  }
}

// Brings what block `b` is the first to read from tables. On a rank without samples nothing comes.
void ModelRunner::read_rows(uint32_t b) {
  for (const uint32_t v : lookups_[b]) {
    const ModelValue& value = graph_.values[v];
    const uint32_t ids = value.lookup->ids;
    const at::Tensor rows = rows_->rows(v, ids != kNoIndex ? values_[ids] : at::Tensor());
    if (rows.defined()) {
      values_[v] = rows.to(store_.device(), border_dtype(v).value_or(compute_dtype_));
    }
  }
}

// Block `b`, the first that reads them, is the last to add to their gradients.
void ModelRunner::hand_back_rows(uint32_t b) {
  for (const uint32_t v : lookups_[b]) {
    rows_->take_grad(v, std::exchange(grads_[v], at::Tensor()));
    values_[v].reset();
  }
}

void ModelRunner::replay(const Batch& batch,
                         const CallPlace& place,
                         const std::function<bool(uint32_t block)>& seen) {
  clear();
  place_ = place;
  frame_.move_to(place);
  read_fields(batch);
  if (rows_ != nullptr) {
    rows_->begin(&batch, place, RowSource::Lookup::kReplay);
  }
  bool is_over = false;
  if (flow_ != nullptr) {
    flow_->begin_forward(false);
  }
  // What ranks do together goes on to the last block, wherever this one has seen enough.
  const bool is_together = flow_ != nullptr || rows_ != nullptr;
  for (uint32_t b = 0; b < graph_.blocks.size() && (!is_over || is_together); ++b) {
    const ModelBlock& block = graph_.blocks[b];
    read_rows(b);
    const FlowPass pass(flow_, b);
    if (is_over) {
      continue;
    }
    Tape& tape = tapes_[b];
    for (const uint32_t v : block.inputs) {
      tape.inputs.push_back(as_leaf(values_[v], false));
    }
    run_block(b, false, true, tape);
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      values_[block.outputs[i]] = at_border(block.outputs[i], tape.outputs[i]);
    }
    is_over = seen(b);
    tape.clear();
  }
  clear();
}

void ModelRunner::forward(const Batch& batch, const CallPlace& place, Extent extent) {
  clear();
  place_ = place;
  frame_.move_to(place);
  read_fields(batch);
  if (rows_ != nullptr) {
    rows_->begin(
        &batch, place, place.is_train ? RowSource::Lookup::kTrain : RowSource::Lookup::kEvaluate);
  }
  if (flow_ != nullptr) {
    flow_->begin_forward(place.is_train);
  }
  const uint32_t num_blocks = num_run(extent);
  for (const auto b : c10::irange(num_blocks)) {
    const ModelBlock& block = graph_.blocks[b];
    read_rows(b);
    Tape& tape = tapes_[b];
    const bool record = place.is_train && !is_recomputed(b) && !block.has(TENON_BLOCK_HAND_WRITTEN);
    for (const uint32_t v : block.inputs) {
      tape.inputs.push_back(as_leaf(values_[v], record && needs_grad_[v]));
    }
    {
      const FlowPass pass(flow_, b);
      run_block(b, record, false, tape);
    }
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      values_[block.outputs[i]] = at_border(block.outputs[i], tape.outputs[i]);
    }
    for (const AuxLoss& aux : tape.aux) {
      aux_losses_.push_back({aux.name, aux.sum.detach(), aux.count, aux.weight});
    }
    tape.has_aux = !tape.aux.empty();
    if (!place.is_train) {
      tape.clear();
    } else if (is_recomputed(b)) {
      tape.outputs.clear();
      tape.aux.clear();
    }
  }
}

uint32_t ModelRunner::num_run(Extent extent) const {
  return static_cast<uint32_t>(graph_.blocks.size()) - (extent == Extent::kAllButTail ? 1 : 0);
}

void ModelRunner::forward_idle(const CallPlace& place, Extent extent) {
  clear();
  place_ = place;
  if (rows_ != nullptr) {
    rows_->begin(
        nullptr, place, place.is_train ? RowSource::Lookup::kTrain : RowSource::Lookup::kEvaluate);
  }
  if (flow_ != nullptr) {
    flow_->begin_forward(place.is_train);
  }
  for (const auto b : c10::irange(num_run(extent))) {
    read_rows(b);
    const FlowPass pass(flow_, b);
  }
  if (flow_ != nullptr && extent == Extent::kAllButTail) {
    flow_->before_forward(tail());  // until the pass ends, as with pieces
  }
}

void ModelRunner::backward_idle(bool ends_step) {
  if (flow_ != nullptr) {
    flow_->begin_backward(ends_step);
  }
  for (auto b = static_cast<uint32_t>(graph_.blocks.size()); b-- > 0;) {
    if (flow_ != nullptr) {
      flow_->before_backward(b);
      flow_->after_backward(b);
    }
    hand_back_rows(b);
  }
  clear();
}

namespace {

std::optional<int64_t> axis_of_positions(const ModelValue& value) {
  if (!value.axes.has_value()) {
    return std::nullopt;
  }
  const auto found = std::ranges::find(*value.axes, "T", &Axis::name);
  return found != value.axes->end() ? std::optional(found - value.axes->begin()) : std::nullopt;
}

}  // namespace

std::vector<uint32_t> tail_outputs(const ModelGraph& graph) {
  const ModelBlock& block = graph.blocks.back();
  const auto has_positions = [&graph](uint32_t v) {
    return axis_of_positions(graph.values[v]).has_value() && !graph.values[v].lookup.has_value();
  };
  const bool can = block.has(TENON_BLOCK_TOKENWISE) && !block.inputs.empty() &&
                   std::ranges::all_of(block.inputs, has_positions) &&
                   std::ranges::all_of(block.outputs, has_positions);
  return can ? block.outputs : std::vector<uint32_t>{};
}

int64_t ModelRunner::tail_length() const {
  const uint32_t v = graph_.blocks[tail()].inputs.front();
  return values_[v].size(*axis_of_positions(graph_.values[v]));
}

void ModelRunner::forward_tail(int64_t begin, int64_t length) {
  const uint32_t b = tail();
  const ModelBlock& block = graph_.blocks[b];
  if (piece_.number == 0 && flow_ != nullptr) {
    flow_->before_forward(b);  // its parameters stay until the pass ends
  }
  piece_ = {.number = piece_.number + 1, .begin = begin, .length = length};
  Tape& tape = tapes_[b];
  tape.clear();
  const bool record = place_.is_train && !block.has(TENON_BLOCK_HAND_WRITTEN);
  for (const uint32_t v : block.inputs) {
    const int64_t axis = *axis_of_positions(graph_.values[v]);
    tape.inputs.push_back(
        as_leaf(values_[v].narrow(axis, begin, length), record && needs_grad_[v]));
  }
  run_block(b, record, false, tape);
  if (!tape.aux.empty()) {
    model_.instance().identity().fail_result(
        "block '" + block.name +
        "' adds an auxiliary loss, and can therefore not be run by pieces (train.loss_chunk)");
  }
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    values_[block.outputs[i]] = at_border(block.outputs[i], tape.outputs[i]);
  }
}

void ModelRunner::backward_tail() {
  const at::AutoGradMode no_grad(false);
  const ModelBlock& block = graph_.blocks[tail()];
  // Apart from what losses have already given to the whole of an input.
  std::vector<at::Tensor> given;
  for (const uint32_t v : block.inputs) {
    given.push_back(std::exchange(grads_[v], at::Tensor()));
  }
  backward_block(tail(), {});  // forward_tail refuses auxiliary losses, which alone are scaled
  tapes_[tail()].clear();
  tail_grads_.resize(block.inputs.size());
  bool is_last = false;
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    const uint32_t v = block.inputs[i];
    const int64_t axis = *axis_of_positions(graph_.values[v]);
    const at::Tensor of_piece = std::exchange(grads_[v], std::move(given[i]));
    if (of_piece.defined()) {
      if (!tail_grads_[i].defined()) {
        tail_grads_[i] = at::zeros_like(values_[v]);
      }
      tail_grads_[i].narrow(axis, piece_.begin, piece_.length).copy_(of_piece);
    }
    is_last = piece_.begin + piece_.length == values_[v].size(axis);
  }
  if (is_last) {
    for (size_t i = block.inputs.size(); i-- > 0;) {
      if (tail_grads_[i].defined()) {
        add_grad(block.inputs[i], std::move(tail_grads_[i]));
      }
    }
    tail_grads_.clear();
    piece_ = {};
  }
  for (const uint32_t v : block.outputs) {
    values_[v].reset();
  }
}

// Pieces of one block draw from streams of their own.
uint32_t ModelRunner::salt(uint32_t b) const {
  return b + piece_.number * static_cast<uint32_t>(graph_.blocks.size());
}

void ModelRunner::run_block(uint32_t b, bool record, bool is_recompute, Tape& tape) {
  const ModelBlock& block = graph_.blocks[b];
  const TraceSpan span(is_recompute ? "recompute of block" : "block", block.name);
  tape.input_handles.clear();
  for (const at::Tensor& input : tape.inputs) {
    tape.input_handles.push_back(borrow(input));
  }
  tape.output_handles.assign(block.outputs.size(), nullptr);
  tape.next_buffer_handles.assign(block.buffers.size(), nullptr);

  Call call;
  call.tape = &tape;
  tenon_forward_args& args = call.args;
  args.struct_size = sizeof(args);
  args.impl = &call;
  args.block = b;
  args.inputs = tape.input_handles.data();
  args.num_inputs = tape.input_handles.size();
  args.parameters = tape.parameter_handles.data();
  args.num_parameters = tape.parameter_handles.size();
  args.buffers = tape.buffer_handles.data();
  args.num_buffers = tape.buffer_handles.size();
  args.outputs_own = tape.output_handles.data();
  args.num_outputs = tape.output_handles.size();
  args.next_buffers_own = tape.next_buffer_handles.data();
  args.save = &Call::save;
  args.add_loss = &Call::add_loss;

  // The same numbers in a recompute: the generator depends on where the block is, not on what ran
  // before.
  seed_default_generators(frame_.seed_for(salt(b)), store_.device());
  frame_.set_recompute(is_recompute);
  std::vector<at::Tensor> next_buffers(block.buffers.size());
  const auto take_all = [&] {
    for (tenon_tensor* handle : tape.output_handles) {
      tape.outputs.push_back(handle != nullptr ? take_handle(handle) : at::Tensor());
    }
    for (size_t i = 0; i < next_buffers.size(); ++i) {
      if (tape.next_buffer_handles[i] != nullptr) {
        next_buffers[i] = take_handle(tape.next_buffer_handles[i]);
      }
    }
  };
  try {
    const at::AutoGradMode mode(record);
    const AutocastGuard autocast(store_.device(), autocast_dtype_);
    model_.forward(frame_.exec(), args);
  } catch (Error& error) {
    take_all();
    throw error.with_context("block '" + block.name + "'");
  }
  take_all();
  for (size_t i = 0; i < tape.outputs.size(); ++i) {
    check_output(b, i, tape.outputs[i]);
  }
  if (place_.is_train && !is_recompute) {
    for (size_t i = 0; i < next_buffers.size(); ++i) {
      if (next_buffers[i].defined()) {
        check_buffer(b, i, next_buffers[i]);
        store_.buffer(block.buffers[i]).copy_(next_buffers[i].detach());
      }
    }
  }
}

// What everybody but the block itself sees a value in; nothing where the block has the choice.
std::optional<at::ScalarType> ModelRunner::border_dtype(uint32_t v) const {
  const uint32_t dtype = graph_.values[v].dtype;
  if (dtype == TENON_CLASS_COMPUTE) {
    return compute_dtype_;
  }
  return dtype < TENON_CLASS_FIRST ? std::optional(static_cast<at::ScalarType>(dtype))
                                   : std::nullopt;
}

// An output as the next block is given it: what autocast made narrow is wide again.
at::Tensor ModelRunner::at_border(uint32_t v, const at::Tensor& output) const {
  const at::Tensor value = output.detach();
  return autocast_dtype_.has_value() ? value.to(border_dtype(v).value_or(value.scalar_type()))
                                     : value;
}

void ModelRunner::check_output(uint32_t b, size_t i, const at::Tensor& output) const {
  const ModelBlock& block = graph_.blocks[b];
  const ModelValue& value = graph_.values[block.outputs[i]];
  std::string wrong;
  const std::optional<at::ScalarType> wanted = border_dtype(block.outputs[i]);
  const bool is_autocast = output.defined() && autocast_dtype_ == output.scalar_type() &&
                           wanted.has_value() && c10::isFloatingType(*wanted);
  if (!output.defined()) {
    wrong = "was not returned";
  } else if (output.device() != store_.device()) {
    wrong = "is on " + output.device().str() + ", but the run is on " + store_.device().str();
  } else if (!is_autocast && value.dtype < TENON_CLASS_FIRST &&
             static_cast<uint32_t>(output.scalar_type()) != value.dtype) {
    wrong = std::string("is ") + c10::toString(output.scalar_type()) + ", but was declared as " +
            c10::toString(static_cast<at::ScalarType>(value.dtype));
  } else if (!is_autocast && value.dtype == TENON_CLASS_COMPUTE &&
             output.scalar_type() != compute_dtype_) {
    wrong = std::string("is ") + c10::toString(output.scalar_type()) +
            ", but the run computes in " + c10::toString(compute_dtype_);
  } else if (value.axes.has_value()) {
    const auto& axes = *value.axes;
    bool fits = static_cast<size_t>(output.dim()) == axes.size();
    for (size_t d = 0; fits && d < axes.size(); ++d) {
      const int64_t wanted_size = axes[d].size >= 0     ? axes[d].size
                                  : axes[d].name == "B" ? num_samples_
                                                        : -1;
      fits = wanted_size < 0 || wanted_size == output.size(static_cast<int64_t>(d));
    }
    if (!fits) {
      wrong = "has the shape " + shape_text(output.sizes()) + ", but was declared as " +
              describe({value.dtype, &axes}) + ", in a batch of " + std::to_string(num_samples_) +
              " samples";
    }
  }
  if (!wrong.empty()) {
    model_.instance().identity().fail_result("output '" + value.name + "' of block '" + block.name +
                                             "' " + wrong);
  }
}

void ModelRunner::check_buffer(uint32_t b, size_t i, const at::Tensor& next) const {
  const ModelBlock& block = graph_.blocks[b];
  const at::Tensor& buffer = store_.buffer(block.buffers[i]);
  if (next.sizes() != buffer.sizes() || next.device() != buffer.device()) {
    model_.instance().identity().fail_result(
        "block '" + block.name + "' gave for its buffer '" + graph_.buffers[block.buffers[i]].name +
        "' " + shape_text(next.sizes()) + " on " + next.device().str() + "; the buffer is " +
        shape_text(buffer.sizes()) + " on " + buffer.device().str());
  }
}

// A running sum, last user first: what one graph over the whole model does, to the bit. Gradients
// that autograd returned may share memory with each other and are never changed in place.
void ModelRunner::add_grad(uint32_t v, at::Tensor grad) {
  at::Tensor& sum = grads_[v];
  if (values_[v].defined()) {
    grad = grad.to(values_[v].scalar_type());
  }
  sum = sum.defined() ? sum + grad : std::move(grad);
}

void ModelRunner::backward(double aux_scale, const at::Tensor& loss_scale, bool ends_step) {
  const at::AutoGradMode no_grad(false);
  if (flow_ != nullptr) {
    flow_->begin_backward(ends_step);
  }
  for (auto b = static_cast<uint32_t>(graph_.blocks.size()); b-- > 0;) {
    if (flow_ != nullptr) {
      flow_->before_backward(b);
    }
    backward_block(b, {aux_scale, loss_scale});
    tapes_[b].clear();
    if (flow_ != nullptr) {
      flow_->after_backward(b);
    }
    hand_back_rows(b);
    for (const uint32_t v : graph_.blocks[b].outputs) {
      values_[v].reset();  // all its users have run backward
    }
  }
  clear();
}

void ModelRunner::backward_block(uint32_t b, const AuxScale& aux_scale) {
  const ModelBlock& block = graph_.blocks[b];
  std::vector<at::Tensor> grads(block.outputs.size());
  Tape& tape = tapes_[b];
  bool is_asked = tape.has_aux;
  for (size_t i = 0; i < block.outputs.size(); ++i) {
    grads[i] = std::exchange(grads_[block.outputs[i]], at::Tensor());
    is_asked = is_asked || (grads[i].defined() && needs_grad_[block.outputs[i]]);
  }
  if (!is_asked) {
    return;
  }
  const TraceSpan span("backward of block", block.name);
  if (is_recomputed(b)) {
    for (size_t i = 0; i < tape.inputs.size(); ++i) {
      tape.inputs[i] = as_leaf(tape.inputs[i], needs_grad_[block.inputs[i]]);
    }
    run_block(b, true, true, tape);
  }
  if (block.has(TENON_BLOCK_HAND_WRITTEN)) {
    backward_by_hand(b, tape, grads);
  } else {
    backward_by_autograd(b, tape, grads, aux_scale);
  }
}

void ModelRunner::backward_by_autograd(uint32_t b,
                                       Tape& tape,
                                       std::vector<at::Tensor>& grads,
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
      at::Tensor seed = aux_scale.factor * aux.weight / aux.count.to(at::kDouble);
      if (aux_scale.loss_scale.defined()) {
        seed = seed * aux_scale.loss_scale;
      }
      seeds.push_back(seed.to(aux.sum.device(), aux.sum.scalar_type()).view_as(aux.sum));
    }
  }
  tape.outputs.clear();
  std::vector<at::Tensor> wrt;
  std::vector<size_t> wrt_inputs;
  for (size_t i = 0; i < tape.inputs.size(); ++i) {
    if (tape.inputs[i].requires_grad()) {
      wrt.push_back(tape.inputs[i]);
      wrt_inputs.push_back(i);
    }
  }
  std::vector<uint32_t> wrt_parameters;
  for (const uint32_t p : block.parameters) {
    if (store_.is_trainable(p)) {
      wrt.push_back(store_.leaf(p));
      wrt_parameters.push_back(p);
    }
  }
  if (outputs.empty() || wrt.empty()) {
    return;
  }
  std::vector<at::Tensor> result;
  try {
    result = plugin_gradients(model_.instance().identity(), outputs, wrt, seeds);
  } catch (const Error& error) {
    throw error.with_context("backward of block '" + block.name + "'");
  }
  // Inputs from the last to the first: the order in which one graph would have added them.
  for (size_t i = wrt_inputs.size(); i-- > 0;) {
    if (result[i].defined()) {
      add_grad(block.inputs[wrt_inputs[i]], std::move(result[i]));
    }
  }
  for (size_t i = 0; i < wrt_parameters.size(); ++i) {
    const at::Tensor& grad = result[wrt_inputs.size() + i];
    if (grad.defined()) {
      store_.add_grad(wrt_parameters[i], grad);
    }
  }
}

void ModelRunner::backward_by_hand(uint32_t b, Tape& tape, std::vector<at::Tensor>& grads) {
  const ModelBlock& block = graph_.blocks[b];
  std::vector<const tenon_tensor*> saved;
  for (const at::Tensor& tensor : tape.saved) {
    saved.push_back(borrow(tensor));
  }
  std::vector<const tenon_tensor*> grad_outputs;
  grad_outputs.reserve(grads.size());
  for (const at::Tensor& grad : grads) {
    grad_outputs.push_back(grad.defined() ? borrow(grad) : nullptr);
  }
  // Not vector<bool>: the ABI takes arrays of bool.
  const auto want_inputs = std::make_unique<bool[]>(block.inputs.size() + 1);
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    want_inputs[i] = needs_grad_[block.inputs[i]];
  }
  const auto want_parameters = std::make_unique<bool[]>(block.parameters.size() + 1);
  for (size_t i = 0; i < block.parameters.size(); ++i) {
    want_parameters[i] = store_.is_trainable(block.parameters[i]);
  }
  std::vector<tenon_tensor*> grad_inputs(block.inputs.size(), nullptr);
  std::vector<tenon_tensor*> grad_parameters(block.parameters.size(), nullptr);

  tenon_backward_args args{};
  args.struct_size = sizeof(args);
  args.block = b;
  args.saved = saved.data();
  args.num_saved = saved.size();
  args.parameters = tape.parameter_handles.data();
  args.num_parameters = tape.parameter_handles.size();
  args.grad_outputs = grad_outputs.data();
  args.num_outputs = grad_outputs.size();
  args.want_grad_inputs = want_inputs.get();
  args.num_inputs = block.inputs.size();
  args.want_grad_parameters = want_parameters.get();
  args.grad_inputs_own = grad_inputs.data();
  args.grad_parameters_own = grad_parameters.data();
  frame_.seed_for(salt(b));
  frame_.set_recompute(false);
  const auto take_all = [](std::vector<tenon_tensor*>& handles) {
    std::vector<at::Tensor> tensors;
    tensors.reserve(handles.size());
    for (tenon_tensor* handle : handles) {
      tensors.push_back(handle != nullptr ? take_handle(handle) : at::Tensor());
    }
    return tensors;
  };
  try {
    // A backward by hand calls the operators that its forward called, on what that one saved.
    const AutocastGuard autocast(store_.device(), autocast_dtype_);
    model_.backward(frame_.exec(), args);
  } catch (Error& error) {
    take_all(grad_inputs);
    take_all(grad_parameters);
    throw error.with_context("backward of block '" + block.name + "'");
  }
  const auto of_inputs = take_all(grad_inputs);
  const auto of_parameters = take_all(grad_parameters);
  const auto check = [&](const at::Tensor& grad, at::IntArrayRef shape, const std::string& name) {
    if (grad.sizes() != shape || grad.device() != store_.device() || !grad.is_floating_point()) {
      model_.instance().identity().fail_result(
          "backward of block '" + block.name + "' gave a gradient of " + shape_text(grad.sizes()) +
          " " + c10::toString(grad.scalar_type()) + " on " + grad.device().str() + " for '" + name +
          "', which is " + shape_text(shape) + " on " + store_.device().str());
    }
  };
  for (size_t i = 0; i < of_inputs.size(); ++i) {
    if (of_inputs[i].defined() && want_inputs[i]) {
      const uint32_t v = block.inputs[i];
      check(of_inputs[i], tape.inputs[i].sizes(), graph_.values[v].name);
      add_grad(v, of_inputs[i]);
    }
  }
  for (size_t i = 0; i < of_parameters.size(); ++i) {
    if (of_parameters[i].defined() && want_parameters[i]) {
      const uint32_t p = block.parameters[i];
      check(of_parameters[i], graph_.parameters[p].shape, graph_.parameters[p].name);
      store_.add_grad(p, of_parameters[i]);
    }
  }
}

void ModelRunner::clear() {
  if (flow_ != nullptr) {
    flow_->end_pass();
  }
  for (auto& tape : tapes_) {
    tape.clear();
  }
  for (auto& value : values_) {
    value.reset();
  }
  for (auto& grad : grads_) {
    grad.reset();
  }
  aux_losses_.clear();
  tail_grads_.clear();
  piece_ = {};
}

}  // namespace tenon
