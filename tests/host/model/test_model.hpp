// SPDX-License-Identifier: Apache-2.0
//
// A model of functions, written in a test.
#pragma once

#include <tenon/draft/step_sums.h>
#include <tenon/model.h>

#include "host/tensor/handle.hpp"

#include <ATen/core/Tensor.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon {

using Tensors = std::vector<at::Tensor>;

struct TestBlock {
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  std::vector<uint32_t> parameters;
  uint32_t flags = 0;
  std::function<Tensors(const Tensors& inputs, const Tensors& parameters, tenon_forward_args* args)>
      forward;
  std::vector<uint32_t> buffers = {};
};

struct TestBuffer {
  std::vector<int64_t> shape;
  uint32_t dtype = TENON_F64;
  uint32_t kind = TENON_BUFFER_STATE;
};

// A model of functions; values 0.. are its inputs, then whatever blocks make.
struct TestModel {
  std::vector<std::string> inputs;
  size_t num_values = 0;
  uint32_t value_dtype = TENON_CLASS_ANY;
  std::vector<std::vector<int64_t>> parameters;
  uint32_t parameter_dtype = TENON_CLASS_PARAM;
  uint32_t init = TENON_INIT_NORMAL;
  double init_a = 0;
  bool has_null_shapes = false;
  bool has_null_inputs = false;
  std::vector<TestBlock> blocks;
  std::function<void(const tenon_backward_args*)> backward;
  Tensors leaves;                             // of materialized blocks
  std::string parameter_tie;                  // of the last parameter
  std::map<size_t, std::string> ties;         // by parameter: the one that it is tied to
  std::vector<std::vector<tenon_axis>> axes;  // by value; any shape where it is shorter or empty
  std::vector<TestBuffer> buffers;            // zeros at first
  std::vector<uint32_t> summed_buffers;
  std::vector<uint32_t> balance_blocks;
  std::vector<int64_t> balance_experts;  // by balance loss
  std::function<void(tenon_end_step_args*)> end_step;
  std::vector<uint32_t> parameter_flags;  // by parameter; 0 where it is shorter
  std::vector<uint32_t> value_flags;      // by value; 0 where it is shorter
  std::vector<std::string> units;         // by block; none where it is shorter or ""
  std::map<size_t, std::function<void(tenon_value_spec& spec)>> lookups;  // by value: makes it one
  int num_forwards = 0;

  static Tensors read(const tenon_tensor* const* handles, size_t n) {
    Tensors tensors;
    for (size_t i = 0; i < n; ++i) {
      tensors.push_back(handles[i] != nullptr ? tensor_of(handles[i]) : at::Tensor());
    }
    return tensors;
  }

  static tenon_status* describe(void* self, tenon_model_builder* b) {
    auto& model = *static_cast<TestModel*>(self);
    uint32_t index = 0;
    for (size_t v = 0; v < model.num_values; ++v) {
      const std::string name = v < model.inputs.size() ? model.inputs[v] : "v" + std::to_string(v);
      tenon_value_spec spec{};
      spec.struct_size = sizeof(spec);
      spec.name = name.c_str();
      spec.dtype = model.value_dtype;
      spec.source_kind = v < model.inputs.size() ? TENON_SOURCE_BATCH : TENON_SOURCE_BLOCK;
      spec.source = v < model.inputs.size() ? name.c_str() : nullptr;
      spec.ids = TENON_NO_INDEX;
      spec.flags = v < model.value_flags.size() ? model.value_flags[v] : 0;
      if (v < model.axes.size() && !model.axes[v].empty()) {
        spec.axes = model.axes[v].data();
        spec.num_axes = model.axes[v].size();
      }
      if (const auto lookup = model.lookups.find(v); lookup != model.lookups.end()) {
        spec.source_kind = TENON_SOURCE_TABLE;
        lookup->second(spec);
      }
      if (tenon_status* status = b->add_value(b, &spec, &index)) {
        return status;
      }
    }
    for (size_t p = 0; p < model.parameters.size(); ++p) {
      const std::string name = "p" + std::to_string(p);
      tenon_parameter_spec spec{};
      spec.struct_size = sizeof(spec);
      spec.name = name.c_str();
      spec.shape = model.has_null_shapes ? nullptr : model.parameters[p].data();
      spec.ndim = model.parameters[p].size();
      spec.dtype = model.parameter_dtype;
      spec.init = model.leaves.empty() ? model.init : uint32_t{TENON_INIT_MODULE};
      spec.init_a = model.init_a;
      spec.init_b = 0.5;
      spec.flags = p < model.parameter_flags.size() ? model.parameter_flags[p] : 0;
      if (p + 1 == model.parameters.size() && !model.parameter_tie.empty()) {
        spec.tied_to = model.parameter_tie.c_str();
      }
      if (const auto tie = model.ties.find(p); tie != model.ties.end()) {
        spec.tied_to = tie->second.c_str();
      }
      if (tenon_status* status = b->add_parameter(b, &spec, &index)) {
        return status;
      }
    }
    for (size_t i = 0; i < model.buffers.size(); ++i) {
      const std::string name = "b" + std::to_string(i);
      const tenon_buffer_spec spec{sizeof(tenon_buffer_spec),
                                   name.c_str(),
                                   model.buffers[i].shape.data(),
                                   model.buffers[i].shape.size(),
                                   model.buffers[i].dtype,
                                   model.buffers[i].kind};
      if (tenon_status* status = b->add_buffer(b, &spec, &index)) {
        return status;
      }
    }
    for (size_t k = 0; k < model.blocks.size(); ++k) {
      const std::string name = "block" + std::to_string(k);
      const TestBlock& block = model.blocks[k];
      tenon_block_spec spec{};
      spec.struct_size = sizeof(spec);
      spec.name = name.c_str();
      spec.flags = block.flags;
      spec.inputs = model.has_null_inputs ? nullptr : block.inputs.data();
      spec.num_inputs = block.inputs.size();
      spec.outputs = block.outputs.data();
      spec.num_outputs = block.outputs.size();
      spec.parameters = block.parameters.data();
      spec.num_parameters = block.parameters.size();
      spec.buffers = block.buffers.data();
      spec.num_buffers = block.buffers.size();
      spec.unit =
          k < model.units.size() && !model.units[k].empty() ? model.units[k].c_str() : nullptr;
      if (tenon_status* status = b->add_block(b, &spec, &index)) {
        return status;
      }
    }
    return nullptr;
  }

  static tenon_status* forward(void* self, const tenon_exec*, tenon_forward_args* args) {
    auto& model = *static_cast<TestModel*>(self);
    ++model.num_forwards;
    const Tensors outputs = model.blocks[args->block].forward(
        read(args->inputs, args->num_inputs), read(args->parameters, args->num_parameters), args);
    for (size_t i = 0; i < outputs.size(); ++i) {
      args->outputs_own[i] = outputs[i].defined() ? new_handle(outputs[i]) : nullptr;
    }
    return nullptr;
  }

  static tenon_status* backward_of(void* self, const tenon_exec*, const tenon_backward_args* args) {
    static_cast<TestModel*>(self)->backward(args);
    return nullptr;
  }

  static tenon_status* materialize(void* self,
                                   const tenon_exec*,
                                   const tenon_materialize_args* args) {
    auto& model = *static_cast<TestModel*>(self);
    for (size_t i = 0; i < args->num_leaves; ++i) {
      args->leaves_own[i] = new_handle(model.leaves[i]);
    }
    return nullptr;
  }

  static tenon_status* fill_buffer(void*, const tenon_exec*, const tenon_fill_buffer_args*) {
    return nullptr;
  }

  static tenon_status* describe_sums(void* self, tenon_step_sums_info* out) {
    const auto& model = *static_cast<TestModel*>(self);
    out->buffers_ref = model.summed_buffers.data();
    out->num_buffers = model.summed_buffers.size();
    out->balance_blocks_ref = model.balance_blocks.data();
    out->balance_experts_ref = model.balance_experts.data();
    out->num_balances = model.balance_experts.size();
    return nullptr;
  }

  static tenon_status* call_end_step(void* self, const tenon_exec*, tenon_end_step_args* args) {
    const auto& model = *static_cast<TestModel*>(self);
    if (model.end_step) {
      model.end_step(args);
    }
    return nullptr;
  }

  // For made_instance.
  static const void* extension(void* self, const char* id) {
    const auto& model = *static_cast<TestModel*>(self);
    static const tenon_step_sums sums = {sizeof(tenon_step_sums), &describe_sums, &call_end_step};
    const bool has_sums = !model.summed_buffers.empty() || !model.balance_experts.empty();
    return has_sums && std::strcmp(id, TENON_STEP_SUMS_ID) == 0 ? &sums : nullptr;
  }

  const tenon_model* table() {
    static const tenon_model plain = {
        sizeof(tenon_model), &describe, &forward, nullptr, &materialize, &fill_buffer, nullptr};
    static const tenon_model by_hand = {sizeof(tenon_model),
                                        &describe,
                                        &forward,
                                        &backward_of,
                                        &materialize,
                                        &fill_buffer,
                                        nullptr};
    return backward ? &by_hand : &plain;
  }
};

}  // namespace tenon
