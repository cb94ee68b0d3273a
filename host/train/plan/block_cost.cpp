// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/block_cost.hpp"

#include <tenon/model.h>
#include <tenon/torch/deferred_init.hpp>

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/io/checked_size.hpp"
#include "host/kernels/kept_attention.hpp"
#include "host/model/graph_facts.hpp"
#include "host/model/group_layout.hpp"
#include "host/model/inferred_block.hpp"
#include "host/model/parametrized_graph.hpp"
#include "host/model/program_visitor.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/plugin/plugin_gradients.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/train/plan/flop_count.hpp"
#include "host/train/plan/meta_backward.hpp"
#include "host/train/plan/meta_kernels.hpp"
#include "host/train/plan/meta_memory.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tenon {
namespace {

using Shape = std::vector<int64_t>;

// Throws for a size that no memory has: a plan adds such sizes, and a sum that wraps looks small.
void check_bytes(std::optional<double> bytes, const std::string& of) {
  constexpr double kMost = 0x1p48;
  if (!bytes.has_value() || *bytes > kMost) {
    throw Error("recipe.out_of_range",
                of + " larger than any memory; use a smaller batch, sequence or model");
  }
}

int64_t bytes_of(const Shape& shape, at::ScalarType dtype) {
  const std::optional<uint64_t> bytes = checked_bytes(shape, c10::elementSize(dtype));
  check_bytes(bytes.has_value() ? std::optional(static_cast<double>(*bytes)) : std::nullopt,
              "a tensor of the shape " + shape_text(shape) + " is");
  return static_cast<int64_t>(*bytes);
}

at::Tensor meta_tensor(const Shape& shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

// ---- one block on meta tensors ----

struct Measured {
  std::vector<at::Tensor> outputs;
  BlockCost cost;
};

// The host's side of a forward call.
struct MetaCall {
  tenon_forward_args args{};
  std::vector<at::Tensor> saved;

  static tenon_status* save(tenon_forward_args* args, const tenon_tensor* tensor) {
    return guard(nullptr, [&] {
      if (args == nullptr || tensor == nullptr) {
        throw Error("plugin.bad_result", "save was called with a null argument");
      }
      static_cast<MetaCall*>(args->impl)->saved.push_back(tensor_of(tensor));
    });
  }
  static tenon_status* add_loss(
      tenon_forward_args*, const char*, const tenon_tensor*, const tenon_tensor*, double) {
    return nullptr;
  }
};

class Planner {
 public:
  Planner(ModelList models, const ModelGraph& graph, const CostQuestion& question)
      : models_(std::move(models)),
        graph_(graph),
        question_(question),
        shapes_(graph.values.size()),
        dtypes_(graph.values.size(), at::kFloat),
        facts_(graph, question.is_trainable) {
    for (size_t i = 0; i < models_.size(); ++i) {
      frames_.emplace_back(models_[i].instance().host(), question.base)
          .move_to({.step = 1, .microbatch = 0, .is_train = i == 0});
    }
    for (const PlannedField& field : question.fields) {
      for (uint32_t v = 0; v < graph.values.size(); ++v) {
        const ModelValue& value = graph.values[v];
        if (value.source_kind != TENON_SOURCE_BATCH || value.source != field.name) {
          continue;
        }
        shapes_[v] = field.shape;
        dtypes_[v] = value.dtype == TENON_CLASS_COMPUTE && c10::isFloatingType(field.dtype)
                         ? question.base.compute_dtype
                         : field.dtype;
        learn_axes(value, field.shape);
      }
    }
    sizes_["B"] = question.num_samples;
    for (uint32_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].lookup.has_value()) {
        shapes_[v] = declared_shape(v);
        dtypes_[v] = declared_dtype(v);
      }
    }
  }

  std::vector<BlockCost> costs() {
    std::vector<BlockCost> result;
    for (const uint32_t b : forward_order(facts_)) {
      result.push_back(cost(b));
    }
    return result;
  }

 private:
  void learn_axes(const ModelValue& value, const Shape& shape) {
    for (size_t d = 0; value.axes.has_value() && d < value.axes->size() && d < shape.size(); ++d) {
      if (!(*value.axes)[d].name.empty()) {
        sizes_[(*value.axes)[d].name] = shape[d];
      }
    }
  }

  // Returns the declared shape, or nothing if one of its sizes is still unknown.
  std::optional<Shape> declared_shape(uint32_t v) const {
    const ModelValue& value = graph_.values[v];
    if (!value.axes.has_value()) {
      return std::nullopt;
    }
    Shape shape;
    for (const Axis& axis : *value.axes) {
      const auto known = sizes_.find(axis.name);
      if (axis.size < 0 && known == sizes_.end()) {
        return std::nullopt;
      }
      shape.push_back(axis.size >= 0 ? axis.size : known->second);
    }
    return shape;
  }

  at::ScalarType declared_dtype(uint32_t v) const {
    return resolved_dtype(graph_.values[v].dtype, question_.base.compute_dtype);
  }

  const Shape& shape_of(uint32_t v) const {
    if (!shapes_[v].has_value()) {
      throw Error("model.unknown_shape",
                  "the size of the value '" + graph_.values[v].name +
                      "' is unknown without running the model; declare its axes, or implement "
                      "`infer` in the plugin");
    }
    return *shapes_[v];
  }

  // An optional input that the batch lacks: blocks get null in its place.
  bool is_absent(uint32_t v) const {
    return graph_.values[v].is_optional && !shapes_[v].has_value();
  }

  bool is_trainable(uint32_t p) const {
    const uint32_t same_as = graph_.parameters[p].same_as;
    return question_.is_trainable(same_as == kNoIndex ? p : same_as);
  }

  BlockCost cost(uint32_t b) {
    const ModelBlock& block = graph_.blocks[b];
    for (const uint32_t v : block.inputs) {
      if (!is_absent(v)) {
        shape_of(v);
      }
    }
    for (const uint32_t v : block.outputs) {
      shapes_[v] = declared_shape(v);
      dtypes_[v] = declared_dtype(v);
    }
    BlockCost cost;
    if (!models_.of(block).has_infer() || !declares(b, cost)) {
      try {
        cost = measured(b);
      } catch (const std::exception& failure) {
        cost = guessed(b, failure.what());
      }
    }
    cost.attention_bytes = question_.counts_attention ? attention_bytes(b) : 0;
    cost.bytes_of_output.clear();
    cost.output_bytes = 0;
    for (const uint32_t v : block.outputs) {
      cost.bytes_of_output.push_back(bytes_of(shape_of(v), dtypes_[v]));
      cost.output_bytes += cost.bytes_of_output.back();
      learn_axes(graph_.values[v], shape_of(v));
    }
    cost.bytes_of_rows.clear();
    for (const uint32_t v : facts_.rows_first_read_by(b)) {
      cost.bytes_of_rows.push_back(bytes_of(shape_of(v), dtypes_[v]));
    }
    return cost;
  }

  // ---- declared by the model ----

  // Returns false if the model does not declare the cost of this block.
  bool declares(uint32_t b, BlockCost& cost) {
    const ModelBlock& block = graph_.blocks[b];
    std::vector<const Shape*> shapes;
    for (const uint32_t v : block.inputs) {
      shapes.push_back(is_absent(v) ? nullptr : &shape_of(v));
    }
    const std::optional<InferredBlock> inferred =
        infer_block(models_.of(block), block, question_.base, exec_of(block), shapes);
    if (!inferred.has_value()) {
      return false;
    }
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      const Shape& shape = inferred->output_shapes[i];
      auto& known = shapes_[block.outputs[i]];
      if (known.has_value() && *known != shape) {
        models_.of(block).instance().identity().fail_result("infer returned for '" +
                                                            graph_.values[block.outputs[i]].name +
                                                            "' another shape than declared");
      }
      known = shape;
    }
    check_bytes(inferred->saved_bytes + inferred->working_bytes,
                "the activations of block '" + block.name + "' are");
    cost.source = BlockCost::Source::kDeclared;
    cost.forward_flops = inferred->flops;
    cost.backward_flops = facts_.has_backward(b) ? 2 * inferred->flops : 0;
    cost.saved_bytes = static_cast<int64_t>(inferred->saved_bytes);
    cost.working_bytes = static_cast<int64_t>(inferred->working_bytes);
    return true;
  }

  // ---- measured on meta tensors ----

  at::Tensor parameter(uint32_t p) const {
    const uint32_t same_as = graph_.parameters[p].same_as;
    const ModelParameter& parameter = graph_.parameters[same_as == kNoIndex ? p : same_as];
    if (const ModelParametrization* const made = parametrization_of(graph_, p)) {
      return effective(*made);
    }
    at::Tensor leaf = meta_tensor(
        parameter.shape, parameter_dtypes(parameter, question_.stored, question_.seen).seen);
    leaf.set_requires_grad(is_trainable(p));
    return leaf;
  }

  // The whole effective parameter, also of a weight whose products need none: an upper bound.
  at::Tensor effective(const ModelParametrization& made) const {
    at::Tensor weight = meta_tensor(made.shape, resolved_dtype(made.dtype, question_.seen));
    weight.set_requires_grad(
        std::ranges::any_of(made.reals, [&](uint32_t p) { return is_trainable(p); }));
    return weight;
  }

  // Large leaves get no memory, unless the module reads their values.
  std::vector<at::Tensor> leaves_without_memory(uint32_t b) const {
    const ModelBlock& block = graph_.blocks[b];
    const size_t count = block.parameters.size();
    try {
      const DeferredInit deferred;
      return models_.of(block).materialize(exec_of(block), block.number, count);
    } catch (const std::exception&) {
      return models_.of(block).materialize(exec_of(block), block.number, count);
    }
  }

  // Returns the leaves of a module, converted to meta tensors.
  std::vector<at::Tensor> materialized(uint32_t b) {
    const ModelBlock& block = graph_.blocks[b];
    std::vector<at::Tensor> leaves = leaves_without_memory(b);
    for (size_t i = 0; i < leaves.size(); ++i) {
      // The module has its own handles to this leaf, so the leaf itself must change.
      leaves[i].unsafeGetTensorImpl()->shallow_copy_from(
          meta_tensor(leaves[i].sizes().vec(),
                      parameter_dtypes(
                          graph_.parameters[block.parameters[i]], question_.stored, question_.seen)
                          .seen)
              .getIntrusivePtr());
      leaves[i].set_requires_grad(is_trainable(block.parameters[i]));
    }
    return leaves;
  }

  static int64_t storage_bytes(const std::vector<at::Tensor>& tensors,
                               std::set<const void*>& counted) {
    int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && counted.insert(tensor.storage().unsafeGetStorageImpl()).second) {
        bytes += static_cast<int64_t>(tensor.storage().nbytes());
      }
    }
    return bytes;
  }

  BlockCost measured(uint32_t b) {
    const ModelBlock& block = graph_.blocks[b];
    const bool by_hand = block.has(TENON_BLOCK_HAND_WRITTEN);
    const bool flows = facts_.has_backward(b);
    MetaMemory memory;
    FlopCount flops;
    BlockCost cost;
    cost.source = BlockCost::Source::kMeasured;

    const std::vector<at::Tensor> inputs = inputs_of(block);
    const std::vector<at::Tensor> parameters = parameters_of(b);
    const std::vector<at::Tensor> buffers = buffers_of(block);
    std::set<const void*> counted;
    storage_bytes(inputs, counted);
    storage_bytes(parameters, counted);
    storage_bytes(buffers, counted);

    flops.take();
    const int64_t before = memory.live();
    MetaCall call;
    std::vector<at::Tensor> outputs =
        forward(b, inputs, parameters, buffers, flows && !by_hand, call);
    cost.forward_flops = flops.take();
    note_outputs(block, outputs);
    cost.saved_bytes = memory.live() - before - storage_bytes(outputs, counted);
    if (!flows) {
      return cost;
    }
    if (by_hand) {
      cost.working_bytes = peak_by_hand(block, inputs, parameters, outputs, call, memory);
      cost.backward_flops = 2 * cost.forward_flops;
      return cost;
    }
    measure_backward(block, inputs, parameters, outputs, memory, cost);
    cost.backward_flops = flops.take();
    return cost;
  }

  std::vector<at::Tensor> inputs_of(const ModelBlock& block) {
    std::vector<at::Tensor> inputs;
    for (const uint32_t v : block.inputs) {
      if (is_absent(v)) {
        inputs.emplace_back();
        continue;
      }
      at::Tensor input = meta_tensor(shape_of(v), dtypes_[v]);
      input.set_requires_grad(facts_.has_gradient(v) && c10::isFloatingType(dtypes_[v]));
      inputs.push_back(std::move(input));
    }
    return inputs;
  }

  std::vector<at::Tensor> parameters_of(uint32_t b) {
    const ModelBlock& block = graph_.blocks[b];
    if (block.has(TENON_BLOCK_MATERIALIZED)) {
      return materialized(b);
    }
    std::vector<at::Tensor> parameters;
    std::ranges::transform(block.declared_parameters(),
                           std::back_inserter(parameters),
                           [&](uint32_t p) { return parameter(p); });
    return parameters;
  }

  std::vector<at::Tensor> buffers_of(const ModelBlock& block) {
    std::vector<at::Tensor> buffers;
    for (const uint32_t i : block.declared_buffers()) {
      const ModelBuffer& one = graph_.buffers[i];
      buffers.push_back(meta_tensor(one.shape, resolved_dtype(one.dtype, question_.seen)));
    }
    return buffers;
  }

  // Stores the shapes and dtypes of a forward's outputs for the blocks that read them.
  void note_outputs(const ModelBlock& block, const std::vector<at::Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint32_t v = block.outputs[i];
      const Shape shape = outputs[i].sizes().vec();
      if (shapes_[v].has_value() && *shapes_[v] != shape) {
        models_.of(block).instance().identity().fail_result("output '" + graph_.values[v].name +
                                                            "' has another shape than declared");
      }
      shapes_[v] = shape;
      if (graph_.values[v].dtype >= TENON_CLASS_FIRST &&
          graph_.values[v].dtype != TENON_CLASS_COMPUTE) {
        dtypes_[v] = outputs[i].scalar_type();
      }
    }
  }

  // Returns the peak of a hand-written backward; of its results alone if it cannot run.
  int64_t peak_by_hand(const ModelBlock& block,
                       const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& parameters,
                       const std::vector<at::Tensor>& outputs,
                       const MetaCall& call,
                       MetaMemory& memory) const {
    MetaBackward backward;
    backward.block = block.number;
    backward.saved = call.saved;
    backward.parameters = parameters;
    for (const at::Tensor& output : outputs) {
      backward.gradients.push_back(meta_tensor(output.sizes().vec(), output.scalar_type()));
    }
    for (const uint32_t v : block.inputs) {
      backward.wants_input.push_back(facts_.has_gradient(v) && !is_absent(v) ? 1 : 0);
    }
    for (const at::Tensor& parameter : parameters) {
      backward.wants_parameter.push_back(parameter.requires_grad() ? 1 : 0);
    }
    const int64_t before = memory.live();
    memory.begin_peak();
    try {
      call_backward(models_.of(block), exec_of(block), backward);
    } catch (const std::exception&) {
      return gradient_bytes(block, inputs, parameters);
    }
    return memory.peak() - before;
  }

  // Returns the bytes of the gradients that a hand-written backward returns.
  int64_t gradient_bytes(const ModelBlock& block,
                         const std::vector<at::Tensor>& inputs,
                         const std::vector<at::Tensor>& parameters) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      bytes += inputs[i].defined() && facts_.has_gradient(block.inputs[i])
                   ? static_cast<int64_t>(inputs[i].nbytes())
                   : 0;
    }
    for (const at::Tensor& parameter : parameters) {
      bytes += parameter.requires_grad() ? static_cast<int64_t>(parameter.nbytes()) : 0;
    }
    return bytes;
  }

  std::vector<at::Tensor> forward(uint32_t b,
                                  const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& parameters,
                                  const std::vector<at::Tensor>& buffers,
                                  bool record,
                                  MetaCall& call) {
    const ModelBlock& block = graph_.blocks[b];
    const auto input_handles = borrow_all(inputs);
    const auto parameter_handles = borrow_all(parameters);
    const auto buffer_handles = borrow_all(buffers);
    OwnHandles output_handles(block.outputs.size());
    OwnHandles next_buffers(block.buffers.size());
    tenon_forward_args& args = call.args;
    args.struct_size = sizeof(args);
    args.impl = &call;
    args.block = block.number;
    args.inputs = input_handles.data();
    args.num_inputs = input_handles.size();
    args.parameters = parameter_handles.data();
    args.num_parameters = parameter_handles.size();
    args.buffers = buffer_handles.data();
    args.num_buffers = buffer_handles.size();
    args.outputs_own = output_handles.data();
    args.num_outputs = output_handles.size();
    args.next_buffers_own = next_buffers.data();
    args.save = &MetaCall::save;
    args.add_loss = &MetaCall::add_loss;
    std::vector<at::Tensor> outputs;
    {
      const at::AutoGradMode mode(record);
      models_.of(block).forward(exec_of(block), args);
      outputs = output_handles.take(models_.of(block).instance().identity(), "forward");
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined() || !outputs[i].is_meta()) {
        throw Error("model.unknown_shape",
                    "block '" + block.name + "' made its output '" +
                        graph_.values[block.outputs[i]].name +
                        "' from something else than its "
                        "inputs");
      }
    }
    return outputs;
  }

  void measure_backward(const ModelBlock& block,
                        const std::vector<at::Tensor>& inputs,
                        const std::vector<at::Tensor>& parameters,
                        std::vector<at::Tensor>& outputs,
                        MetaMemory& memory,
                        BlockCost& cost) {
    std::vector<at::Tensor> roots;
    std::vector<at::Tensor> seeds;
    for (at::Tensor& output : outputs) {
      if (output.requires_grad()) {
        seeds.push_back(meta_tensor(output.sizes().vec(), output.scalar_type()));
        roots.push_back(output);
      }
    }
    std::vector<at::Tensor> wrt;
    for (const std::vector<at::Tensor>* const tensors : {&inputs, &parameters}) {
      std::ranges::copy_if(*tensors, std::back_inserter(wrt), [](const at::Tensor& t) {
        return t.defined() && t.requires_grad();
      });
    }
    if (roots.empty() || wrt.empty()) {
      return;
    }
    const int64_t before = memory.live();
    memory.begin_peak();
    const std::vector<at::Tensor> gradients =
        plugin_gradients(models_.of(block).instance().identity(), roots, wrt, seeds);
    cost.working_bytes = memory.peak() - before;
  }

  // Returns what attention in the block keeps for a selective recompute; 0 if the block cannot run
  // on meta tensors.
  int64_t attention_bytes(uint32_t b) {
    const ModelBlock& block = graph_.blocks[b];
    int64_t bytes = 0;
    if (block.has(TENON_BLOCK_HAND_WRITTEN | TENON_BLOCK_MATERIALIZED)) {
      return bytes;
    }
    try {
      const AttentionScope scope(bytes, question_.base.device);
      MetaCall call;
      forward(b, inputs_of(block), parameters_of(b), buffers_of(block), false, call);
    } catch (const std::exception&) {
      return 0;
    }
    return bytes;
  }

  // ---- guessed ----

  BlockCost guessed(uint32_t b, const std::string& why) const {
    const ModelBlock& block = graph_.blocks[b];
    BlockCost cost;
    cost.source = BlockCost::Source::kGuessed;
    cost.why = why.substr(0, why.find('\n'));
    double positions = 1;
    for (const uint32_t v : block.outputs) {
      const Shape& shape = shape_of(v);  // throws if the shape is unknown
      if (!shape.empty() && shape.back() > 0) {
        positions =
            std::max(positions, static_cast<double>(c10::multiply_integers(shape) / shape.back()));
      }
      cost.saved_bytes += bytes_of(shape, dtypes_[v]);
    }
    for (const uint32_t v : block.inputs) {
      cost.saved_bytes += is_absent(v) ? 0 : bytes_of(shape_of(v), dtypes_[v]);
    }
    for (const uint32_t p : block.parameters) {
      const uint32_t same_as = graph_.parameters[p].same_as;
      const ModelParameter& parameter = graph_.parameters[same_as == kNoIndex ? p : same_as];
      const at::ScalarType seen =
          parameter_dtypes(parameter, question_.stored, question_.seen).seen;
      cost.forward_flops +=
          2 * positions * static_cast<double>(c10::multiply_integers(parameter.shape));
      cost.working_bytes += is_trainable(p) ? bytes_of(parameter.shape, seen) : 0;
    }
    cost.working_bytes += cost.saved_bytes;
    cost.backward_flops = 2 * cost.forward_flops;
    return cost;
  }

  const tenon_exec& exec_of(const ModelBlock& block) const { return frames_[block.model].exec(); }

  const ModelList models_;
  const ModelGraph& graph_;
  const CostQuestion& question_;
  std::vector<ExecFrame> frames_;             // by model
  std::map<std::string, int64_t> sizes_;      // of named axes
  std::vector<std::optional<Shape>> shapes_;  // by value
  std::vector<at::ScalarType> dtypes_;        // by value
  const GraphFacts facts_;
};

}  // namespace

int64_t PlannedField::bytes() const {
  return bytes_of(shape, dtype);
}

std::vector<BlockCost> block_costs(ModelList models,
                                   const ModelGraph& graph,
                                   const CostQuestion& question) {
  register_meta_kernels();
  return Planner(std::move(models), graph, question).costs();
}

}  // namespace tenon
