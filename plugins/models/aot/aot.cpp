// SPDX-License-Identifier: Apache-2.0
//
// Trains a module that was compiled ahead of time in Python (tenon_aot.py): one block whose forward
// and hand-written backward are compiled graphs. They compute in the dtypes of the export, whatever
// the precision of the run.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiled_graph.hpp"
#include "exported_folder.hpp"
#include "safetensors_file.hpp"
#include "write_permissions.hpp"

namespace {

std::string text_of(const TensorSpec& spec) {
  std::string text = "[";
  for (const TensorSpec::Axis& axis : spec.axes) {
    text += (text.size() > 1 ? ", " : "") + (axis.size < 0 ? axis.name : std::to_string(axis.size));
  }
  return text + "]";
}

tenon::Axes axes_of(const TensorSpec& spec) {
  tenon::Axes axes;
  for (const TensorSpec::Axis& axis : spec.axes) {
    axes.emplace_back(axis.name, axis.size);
  }
  return axes;
}

// Compiled code does not check sizes. It would read beyond the end of a smaller tensor.
void check_sizes(const TensorSpec& spec,
                 const at::Tensor& tensor,
                 std::map<std::string, int64_t>& named) {
  bool fits = static_cast<size_t>(tensor.dim()) == spec.axes.size();
  for (size_t d = 0; fits && d < spec.axes.size(); ++d) {
    const TensorSpec::Axis& axis = spec.axes[d];
    const int64_t size = tensor.size(static_cast<int64_t>(d));
    fits = axis.size < 0 ? named.emplace(axis.name, size).first->second == size : axis.size == size;
  }
  if (!fits) {
    TENON_FAIL(TENON_INVALID,
               "aot.other_shape",
               "input ",
               spec.name,
               " has ",
               tensor.dim(),
               " axes with other sizes than the export (",
               tenon::concat(tensor.sizes()),
               ", expected ",
               text_of(spec),
               "); name the axes that vary when you export the module");
  }
}

uint32_t dtype_number(at::ScalarType dtype) {
  return static_cast<uint32_t>(dtype);
}

// Of an input or output: the run computes in its own floating-point dtype.
uint32_t border_dtype(const TensorSpec& spec) {
  return c10::isFloatingType(spec.dtype) ? uint32_t{TENON_CLASS_COMPUTE} : dtype_number(spec.dtype);
}

}  // namespace

class Aot final : public tenon::Model {
 public:
  static constexpr const char* kType = "aot";
  static constexpr const char* kSummary = "a module compiled ahead of time (experimental)";

  struct Options {
    std::string path;
    std::vector<std::string> inputs;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("path", &Options::path)
        .required()
        .non_empty()
        .path()
        .doc("folder that tenon_aot.py wrote; has native code");
    b.field("inputs", &Options::inputs)
        .doc("batch fields for the inputs, in order; []: fields of the same names");
  }

  explicit Aot(const Options& options) : options_(options) {}

  void on_describe(tenon::Graph& graph) override {
    tenon::call_torch([&] { describe(graph); });
  }

  // Loads the graphs too, so that a library that does not fit fails before the first step.
  void on_materialize(const tenon::Exec& exec, const tenon_materialize_args& args) override {
    TENON_CHECK(args.num_leaves == folder_.parameters.size(), "the model has other parameters");
    tenon::call_torch([&] {
      load();
      for (size_t i = 0; i < args.num_leaves; ++i) {
        args.leaves_own[i] = tenon::wrap(exec.host(), initial(folder_.parameters[i]));
      }
    });
  }

  void on_fill_buffer(const tenon::Exec& /*exec*/, const tenon_fill_buffer_args& args) override {
    TENON_CHECK(args.buffer < folder_.buffers.size(), "there is no buffer ", args.buffer);
    tenon::call_torch(
        [&] { tenon::unwrap_mutable(args.tensor).copy_(initial(folder_.buffers[args.buffer])); });
  }

  void on_forward(const tenon::Exec& exec, tenon_forward_args& args) override {
    tenon::call_torch([&] {
      load();
      const tenon::BlockCall call(exec, args);
      const bool evaluates = !exec.is_train() && folder_.evaluate.has_value();
      const GraphSpec& spec = evaluates ? *folder_.evaluate : folder_.forward;
      Known known;
      known.inputs = inputs_of(call);
      std::vector<at::Tensor> given;
      for (const GraphTensor& tensor : spec.inputs) {
        given.push_back(tensor.role == Role::kParameter ? call.parameter(tensor.index).detach()
                        : tensor.role == Role::kBuffer  ? call.buffer(tensor.index)
                                                        : known.inputs[tensor.index]);
      }
      const std::vector<at::Tensor> made = (evaluates ? *evaluate_ : *forward_).run(given);
      known.outputs.resize(folder_.outputs.size());
      for (size_t i = 0; i < spec.outputs.size(); ++i) {
        const GraphTensor& tensor = spec.outputs[i];
        if (tensor.role == Role::kOutput) {
          known.outputs[tensor.index] = made.at(i);
        } else if (tensor.role == Role::kSaved) {
          known.saved.push_back(made.at(i));
        }
      }
      if (exec.is_train()) {
        save(call, known);
        for (size_t i = 0; i < spec.outputs.size(); ++i) {
          if (spec.outputs[i].role == Role::kBuffer) {
            call.set_next_buffer(spec.outputs[i].index, made.at(i));
          }
        }
      }
      for (at::Tensor& output : known.outputs) {
        output = output.is_floating_point() ? output.to(tenon::scalar_type(exec.compute_dtype()))
                                            : output;
      }
      tenon::hand_over(exec, args, known.outputs);
    });
  }

  void on_backward(const tenon::Exec& exec, const tenon_backward_args& args) override {
    tenon::call_torch([&] {
      load();
      const tenon::BlockGradients call(exec, args);
      std::vector<at::Tensor> given;
      size_t next = 0;
      for (const GraphTensor& tensor : folder_.backward.inputs) {
        if (tensor.role == Role::kParameter) {
          given.push_back(call.parameter(tensor.index).detach());
          continue;
        }
        const at::Tensor& saved = call.saved(next++);
        if (tensor.role == Role::kGradient) {
          const at::Tensor& shaped =
              call.has_grad_output(tensor.index) ? call.grad_output(tensor.index) : saved;
          given.push_back(shaped.to(folder_.outputs[tensor.index].dtype).contiguous());
        } else {
          given.push_back(saved);
        }
      }
      const std::vector<at::Tensor> made = backward_->run(given);
      for (size_t i = 0; i < folder_.backward.outputs.size(); ++i) {
        const GraphTensor& tensor = folder_.backward.outputs[i];
        if (tensor.role == Role::kParameter) {
          call.set_grad_parameter(tensor.index, made.at(i));
        } else {
          call.set_grad_input(tensor.index, made.at(i));
        }
      }
    });
  }

 private:
  struct Known {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> saved;
  };

  void describe(tenon::Graph& graph) {
    folder_ = read_exported_folder(options_.path);
    for (const GraphSpec* const spec : {&folder_.forward, &folder_.backward}) {
      check_write_permissions(spec->file);
    }
    if (!options_.inputs.empty() && options_.inputs.size() != folder_.inputs.size()) {
      TENON_FAIL(TENON_INVALID,
                 "aot.inputs",
                 "option `inputs` has ",
                 options_.inputs.size(),
                 " fields, but the module in ",
                 options_.path,
                 " has ",
                 folder_.inputs.size(),
                 " inputs; name one field for each input");
    }
    tenon::BlockSpec block;
    block.name = "module";
    block.flags = TENON_BLOCK_MATERIALIZED | TENON_BLOCK_HAND_WRITTEN;
    for (size_t i = 0; i < folder_.inputs.size(); ++i) {
      const TensorSpec& input = folder_.inputs[i];
      block.inputs.push_back(graph.input(options_.inputs.empty() ? input.name : options_.inputs[i],
                                         axes_of(input),
                                         c10::isFloatingType(input.dtype)
                                             ? uint32_t{TENON_CLASS_COMPUTE}
                                             : dtype_number(input.dtype)));
    }
    for (const TensorSpec& output : folder_.outputs) {
      block.outputs.push_back(graph.value(output.name, axes_of(output), border_dtype(output)));
    }
    for (const TensorSpec& parameter : folder_.parameters) {
      const uint32_t flags = (parameter.axes.size() <= 1 ? uint32_t{TENON_PARAM_NO_DECAY} : 0) |
                             (parameter.is_trained ? 0 : uint32_t{TENON_PARAM_FROZEN});
      block.parameters.push_back(graph.parameter(parameter.name,
                                                 parameter.shape(),
                                                 tenon::Init::module(),
                                                 flags,
                                                 {},
                                                 dtype_number(parameter.dtype)));
    }
    for (size_t i = 0; i < folder_.buffers.size(); ++i) {
      const TensorSpec& buffer = folder_.buffers[i];
      block.buffers.push_back(graph.buffer(
          buffer.name,
          buffer.shape(),
          dtype_number(buffer.dtype),
          buffer.is_saved || folder_.updates(i) ? TENON_BUFFER_STATE : TENON_BUFFER_CONSTANT));
    }
    graph.add_block(block);
  }

  void load() {
    if (forward_) {
      return;
    }
    backward_ = std::make_unique<CompiledGraph>(folder_.backward.file);
    if (folder_.evaluate.has_value()) {
      evaluate_ = std::make_unique<CompiledGraph>(folder_.evaluate->file);
    }
    forward_ = std::make_unique<CompiledGraph>(folder_.forward.file);
  }

  at::Tensor initial(const TensorSpec& tensor) {
    if (!weights_.has_value()) {
      weights_.emplace(options_.path + "/weights.safetensors");
    }
    return weights_->read(tensor.name, tensor.shape(), tensor.dtype);
  }

  std::vector<at::Tensor> inputs_of(const tenon::BlockCall& call) const {
    std::map<std::string, int64_t> named;
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < folder_.inputs.size(); ++i) {
      check_sizes(folder_.inputs[i], call.input(i), named);
      inputs.push_back(call.input(i).detach().to(folder_.inputs[i].dtype).contiguous());
    }
    return inputs;
  }

  // Saves what the backward needs, in the order of its inputs. The host keeps parameters.
  void save(const tenon::BlockCall& call, const Known& known) const {
    for (const GraphTensor& tensor : folder_.backward.inputs) {
      switch (tensor.role) {
        case Role::kParameter:
          break;
        case Role::kBuffer:  // the host writes the next value into it
          call.save(call.buffer(tensor.index).clone());
          break;
        case Role::kInput:
          call.save(known.inputs[tensor.index]);
          break;
        case Role::kOutput:
          call.save(known.outputs[tensor.index]);
          break;
        case Role::kSaved:
          call.save(known.saved[tensor.index]);
          break;
        case Role::kGradient:  // the gradient of an output that has none
          call.save(at::zeros({1}, known.outputs[tensor.index].options())
                        .expand(known.outputs[tensor.index].sizes()));
          break;
      }
    }
  }

  Options options_;
  ExportedFolder folder_;
  std::optional<SafetensorsFile> weights_;
  std::unique_ptr<CompiledGraph> forward_;
  std::unique_ptr<CompiledGraph> backward_;
  std::unique_ptr<CompiledGraph> evaluate_;
};

TENON_PLUGIN(Aot)
