// SPDX-License-Identifier: Apache-2.0
//
// Models at random, with blocks that compute: the graphs of random_graph.hpp, in which each output
// is tanh of a weighted sum of the inputs, times the block's parameters. Some blocks have a state
// buffer or an auxiliary loss. The same functions under one autograd graph are the oracle.
// Shapes: values [kSamples, kPositions, kWidth] or [kSamples, kWidth]; parameters [kWidth, kWidth].
#pragma once

#include "host/tensor/batch.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/host/model/random_graph.hpp"
#include "tests/host/model/test_model.hpp"

namespace tenon {

inline constexpr int64_t kSamples = 2;
inline constexpr int64_t kPositions = 5;
inline constexpr int64_t kWidth = 3;

// Returns numbers from -1 to 1, the same with every standard library.
inline at::Tensor numbers(at::IntArrayRef shape, std::mt19937_64& generator) {
  const at::Tensor tensor = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.mutable_data_ptr<double>()[i] = static_cast<double>(generator() % 2001) / 1000.0 - 1.0;
  }
  return tensor;
}

class RandomModel {
 public:
  explicit RandomModel(uint64_t seed) : random_(seed), graph_(random_.make()) {
    Draw& draw = random_.draw();
    for (const ModelBlock& block : graph_.blocks) {
      const bool is_plain = !block.has(TENON_BLOCK_TOKENWISE | TENON_BLOCK_HAND_WRITTEN);
      state_.push_back(is_plain && draw.chance(15) ? num_states_++ : kNoIndex);
      has_aux_.push_back(is_plain && draw.chance(20));
    }
    declare_values();
    for (size_t p = 0; p < graph_.parameters.size(); ++p) {
      const ModelParameter& parameter = graph_.parameters[p];
      test.parameters.push_back({kWidth, kWidth});
      test.parameter_flags.push_back(parameter.flags);
      if (parameter.same_as != kNoIndex) {
        test.ties[p] = "p" + std::to_string(parameter.same_as);
      }
    }
    test.buffers.assign(num_states_, {.shape = {1}});
    for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
      declare_block(b);
    }
    test.backward = [this](const tenon_backward_args* args) { run_backward(args); };
  }
  RandomModel(const RandomModel&) = delete;
  RandomModel& operator=(const RandomModel&) = delete;

  const ModelGraph& graph() const { return graph_; }
  RandomGraph& random() { return random_; }

  // Returns the outputs of a block. `state` is the value of its buffer.
  Tensors outputs_of(uint32_t b, const Tensors& inputs, const Tensors& parameters, double state) {
    const ModelBlock& block = graph_.blocks[b];
    Tensors outputs;
    for (size_t o = 0; o < block.outputs.size(); ++o) {
      const bool has_positions = has_axis_t(block.outputs[o]);
      at::Tensor sum;
      for (size_t i = 0; i < inputs.size(); ++i) {
        at::Tensor x = inputs[i].to(at::kDouble);
        if (has_positions && x.dim() == 2) {
          const bool is_piece = std::ranges::any_of(
              inputs, [&](const at::Tensor& other) { return other.dim() == 3; });
          x = x.unsqueeze(1).expand({x.size(0), is_piece ? length_of(inputs) : kPositions, kWidth});
        } else if (!has_positions && x.dim() == 3) {
          x = x.mean(1);
        }
        const double factor = 0.3 + 0.1 * static_cast<double>((3 * b + 5 * o + 7 * i) % 11);
        sum = sum.defined() ? sum + x * factor : x * factor;
      }
      sum = at::tanh(sum + state);
      for (const at::Tensor& w : parameters) {
        sum = at::matmul(sum, w);
      }
      outputs.push_back(sum);
    }
    return outputs;
  }

  // Returns weight / count times the sum of the auxiliary loss of a block, or nothing.
  std::optional<at::Tensor> aux_of(uint32_t b, const Tensors& outputs) const {
    if (!has_aux_[b]) {
      return std::nullopt;
    }
    return kAuxWeight / static_cast<double>(outputs[0].numel()) * outputs[0].pow(2).sum();
  }

  // Returns a batch of fields of random numbers.
  Batch batch(uint64_t seed, int64_t samples = kSamples) const {
    auto schema = std::make_shared<std::vector<FieldInfo>>();
    Batch result;
    std::mt19937_64 generator(seed);
    for (uint32_t v = 0; v < test.inputs.size(); ++v) {
      schema->emplace_back();
      schema->back().name = test.inputs[v];
      result.fields.push_back(numbers({samples, kPositions, kWidth}, generator));
    }
    result.schema = schema;
    result.samples = static_cast<size_t>(samples);
    return result;
  }

  bool has_axis_t(uint32_t v) const { return graph_.values[v].axes->size() == 2; }
  // The value of the block's buffer after `n` forwards in training; 0 without one.
  double state_at(uint32_t b, uint32_t n) const {
    return state_[b] != kNoIndex ? kStateStep * static_cast<double>(n) : 0;
  }

  TestModel test;

 private:
  static constexpr double kAuxWeight = 0.25;
  static constexpr double kStateStep = 0.01;

  static int64_t length_of(const Tensors& inputs) {
    const auto found =
        std::ranges::find_if(inputs, [](const at::Tensor& x) { return x.dim() == 3; });
    return found->size(1);
  }

  void declare_values() {
    test.value_dtype = TENON_CLASS_ANY;
    test.num_values = graph_.values.size();
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      const ModelValue& value = graph_.values[v];
      std::vector<tenon_axis> axes = {{"B", -1}};
      if (value.lookup.has_value()) {
        graph_.values[v].axes = {{"B", -1}};
        const uint32_t ids = value.lookup->ids;
        test.lookups[v] = [ids](tenon_value_spec& spec) {
          static constexpr tenon_axis kRowAxes[] = {{"B", -1}, {nullptr, kWidth}};
          spec.axes = kRowAxes;
          spec.num_axes = 2;
          spec.ids = ids == kNoIndex ? TENON_NO_INDEX : ids;
          spec.source = ids == kNoIndex ? "user" : nullptr;
          spec.table = ids == kNoIndex ? nullptr : "t";
        };
      } else if (has_axis_t(v)) {
        axes.push_back({"T", -1});
      }
      axes.push_back({nullptr, kWidth});
      test.axes.push_back(std::move(axes));
      if (value.source_kind == TENON_SOURCE_BATCH) {
        test.inputs.push_back("field" + std::to_string(v));
      }
    }
  }

  void declare_block(uint32_t b) {
    const ModelBlock& block = graph_.blocks[b];
    test.units.push_back(block.unit);
    TestBlock made = {block.inputs, block.outputs, block.parameters, block.flags, {}, {}};
    if (state_[b] != kNoIndex) {
      made.buffers = {state_[b]};
    }
    made.forward = [this, b](const Tensors& x, const Tensors& w, tenon_forward_args* args) {
      double state = 0;
      if (state_[b] != kNoIndex) {
        const at::Tensor& buffer = tensor_of(args->buffers[0]);
        state = buffer.item<double>();
        args->next_buffers_own[0] = new_handle(buffer + kStateStep);
      }
      if (graph_.blocks[b].has(TENON_BLOCK_HAND_WRITTEN)) {
        for (const at::Tensor& input : x) {
          args->save(args, borrow(input));
        }
      }
      const Tensors outputs = outputs_of(b, x, w, state);
      if (has_aux_[b]) {
        const at::Tensor sum = outputs[0].pow(2).sum();
        const at::Tensor count =
            at::scalar_tensor(static_cast<double>(outputs[0].numel()), at::kDouble);
        args->add_loss(args, "aux", borrow(sum), borrow(count), kAuxWeight);
      }
      return outputs;
    };
    test.blocks.push_back(std::move(made));
  }

  // The backward of a hand-written block, by autograd over what it saved.
  void run_backward(const tenon_backward_args* args) {
    const at::AutoGradMode grad(true);
    const auto leaves = [](const Tensors& tensors) {
      Tensors result;
      for (const at::Tensor& tensor : tensors) {
        result.push_back(tensor.detach().to(at::kDouble).requires_grad_(true));
      }
      return result;
    };
    const Tensors x = leaves(TestModel::read(args->saved, args->num_saved));
    const Tensors w = leaves(TestModel::read(args->parameters, args->num_parameters));
    const Tensors outputs = outputs_of(args->block, x, w, 0);
    Tensors of;
    Tensors seeds;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (args->grad_outputs[o] != nullptr) {
        of.push_back(outputs[o]);
        seeds.push_back(tensor_of(args->grad_outputs[o]));
      }
    }
    if (of.empty()) {
      return;
    }
    Tensors all = x;
    all.insert(all.end(), w.begin(), w.end());
    const Tensors grads = torch::autograd::grad(of, all, seeds, std::nullopt, false, true);
    for (size_t i = 0; i < args->num_inputs; ++i) {
      if (args->want_grad_inputs[i] != 0 && grads[i].defined()) {
        args->grad_inputs_own[i] = new_handle(grads[i]);
      }
    }
    for (size_t p = 0; p < args->num_parameters; ++p) {
      if (args->want_grad_parameters[p] != 0 && grads[x.size() + p].defined()) {
        args->grad_parameters_own[p] = new_handle(grads[x.size() + p]);
      }
    }
  }

  RandomGraph random_;
  ModelGraph graph_;  // as drawn; the host's graph comes from describe
  uint32_t num_states_ = 0;
  std::vector<uint32_t> state_;  // by block
  std::vector<bool> has_aux_;
};

}  // namespace tenon
