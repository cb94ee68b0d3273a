// SPDX-License-Identifier: Apache-2.0
//
// Trains a module that was saved by torch.jit in Python. The module is one block. The executor's
// optimizations are off, so that each operator runs as in PyTorch.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/source_files.hpp>
#include <tenon/torch/model.hpp>

#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "script_module.hpp"

class TorchScript final : public tenon::Model, public tenon::SourceFiles {
 public:
  static constexpr const char* kType = "torchscript";
  static constexpr const char* kSummary = "a module saved by torch.jit (experimental)";

  struct Options {
    std::string path;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs = {"logits"};
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("path", &Options::path).required().non_empty().path().doc("file of torch.jit.save");
    b.field("inputs", &Options::inputs)
        .doc("batch fields for the arguments of forward, in order; []: fields of the same names");
    b.field("outputs", &Options::outputs)
        .min_items(1)
        .doc("names of the outputs of forward, in order");
  }

  explicit TorchScript(const Options& options) : options_(options) {}

  const void* extension(const char* id) override {
    return tenon::SourceFilesCalls<TorchScript>::find(id);
  }
  // The file decides the function, also if a checkpoint has the parameters.
  void list_files(const tenon_window*, tenon::SourceFileList& files) override {
    files.add(options_.path);
  }

  void on_describe(tenon::Graph& graph) override {
    tenon::call_torch([&] { describe(graph); });
  }

  void on_materialize(const tenon::Exec& exec, const tenon_materialize_args& args) override {
    const auto& parameters = module_->parameters();
    TENON_CHECK(args.num_leaves == parameters.size(), "the module has other parameters");
    tenon::call_torch([&] {
      for (size_t i = 0; i < parameters.size(); ++i) {
        const at::Tensor& value = parameters[i].value;
        const at::Tensor leaf =
            is_plain(value) ? value.to(c10::get_default_dtype_as_scalartype(), false, /*copy=*/true)
                            : value.clone();
        args.leaves_own[i] = tenon::wrap(exec.host(), leaf.contiguous());
      }
    });
    module_->drop_values();
  }

  void on_fill_buffer(const tenon::Exec& /*exec*/, const tenon_fill_buffer_args& args) override {
    TENON_CHECK(args.buffer < module_->buffers().size(), "there is no buffer ", args.buffer);
    tenon::call_torch(
        [&] { tenon::unwrap_mutable(args.tensor).copy_(module_->buffers()[args.buffer].value); });
  }

  void on_forward(const tenon::Exec& exec, tenon_forward_args& args) override {
    tenon::call_torch([&] {
      const tenon::BlockCall call(exec, args);
      std::vector<at::Tensor> parameters;
      for (size_t i = 0; i < args.num_parameters; ++i) {
        parameters.push_back(call.parameter(i));
      }
      // Copies, so that writes of the module reach the host only through set_next_buffer.
      std::vector<at::Tensor> buffers;
      for (size_t i = 0; i < args.num_buffers; ++i) {
        buffers.push_back(call.buffer(i).detach().clone());
      }
      std::vector<at::Tensor> inputs;
      for (size_t i = 0; i < args.num_inputs; ++i) {
        const at::Tensor& input = call.input(i);
        inputs.push_back(
            input.is_floating_point() ? input.to(tenon::scalar_type(exec.compute_dtype())) : input);
      }
      const std::vector<at::Tensor> outputs =
          module_->run(parameters, buffers, inputs, exec.is_train());
      TENON_CHECK(outputs.size() == args.num_outputs,
                  options_.path,
                  ": forward returns ",
                  outputs.size(),
                  " tensors, but the option `outputs` has ",
                  args.num_outputs,
                  " names; name each of them");
      tenon::hand_over(exec, args, outputs);
      for (size_t i = 0; i < args.num_buffers && exec.is_train(); ++i) {
        call.set_next_buffer(i, buffers[i]);
      }
    });
  }

 private:
  static bool is_plain(const at::Tensor& value) { return value.scalar_type() == at::kFloat; }

  void describe(tenon::Graph& graph) {
    module_.emplace(options_.path);
    tenon::BlockSpec block;
    block.name = "module";
    block.flags = TENON_BLOCK_MATERIALIZED;
    for (const std::string& field : fields()) {
      block.inputs.push_back(graph.input(field, {}, TENON_CLASS_ANY));
    }
    for (const std::string& name : options_.outputs) {
      block.outputs.push_back(graph.value(name, {}));
    }
    for (const ScriptModule::Held& held : module_->parameters()) {
      const uint32_t flags =
          (held.value.dim() <= 1 ? uint32_t{TENON_PARAM_NO_DECAY} : 0) |
          (held.is_trained && held.value.is_floating_point() ? 0 : uint32_t{TENON_PARAM_FROZEN});
      block.parameters.push_back(graph.parameter(
          held.name,
          held.value.sizes().vec(),
          tenon::Init::module(),
          flags,
          {},
          is_plain(held.value) ? uint32_t{TENON_CLASS_PARAM} : tenon::dtype_of(held.value)));
    }
    for (const ScriptModule::Held& held : module_->buffers()) {
      block.buffers.push_back(graph.buffer(
          held.name,
          held.value.sizes().vec(),
          is_plain(held.value) ? uint32_t{TENON_CLASS_COMPUTE} : tenon::dtype_of(held.value),
          TENON_BUFFER_STATE));
    }
    graph.add_block(block);
  }

  // The batch fields of the arguments.
  std::vector<std::string> fields() const {
    const std::vector<std::string>& arguments = module_->arguments();
    if (options_.inputs.empty()) {
      return arguments;
    }
    if (options_.inputs.size() < arguments.size() ||
        options_.inputs.size() > module_->max_arguments()) {
      TENON_FAIL(TENON_INVALID,
                 "torchscript.inputs",
                 "option `inputs` has ",
                 options_.inputs.size(),
                 " fields, but forward of ",
                 options_.path,
                 " takes ",
                 arguments.size(),
                 " to ",
                 module_->max_arguments(),
                 " tensors (",
                 listed(arguments),
                 "); name one field for each argument");
    }
    return options_.inputs;
  }

  static std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
      text += (text.empty() ? "" : ", ") + name;
    }
    return text;
  }

  Options options_;
  std::optional<ScriptModule> module_;
};

TENON_PLUGIN(TorchScript)
