// SPDX-License-Identifier: Apache-2.0
//
// A module that torch.jit.save wrote, as a function of its tensors: each call receives parameters
// and buffers, and the module keeps none of them.
// Not for: choosing names of the batch or of outputs (torchscript.cpp).
// Threads: one call at a time per object.
#ifndef TENON_TORCHSCRIPT_SCRIPT_MODULE_HPP
#define TENON_TORCHSCRIPT_SCRIPT_MODULE_HPP

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

class ScriptModule {
 public:
  // A tensor of the module and the attributes that hold it; several if the module uses it twice.
  struct Held {
    std::string name;  // of its first attribute, as in state_dict
    at::Tensor value;  // as in the file
    bool is_trained = false;
    std::vector<std::string> other_names;
    struct Slot {
      torch::jit::ObjectPtr owner;
      size_t index = 0;
    };
    std::vector<Slot> slots;
  };

  // Reads the file.
  //
  // Errors: TENON_NOT_FOUND if there is none; TENON_INVALID if it is no TorchScript module, or a
  // module without `forward` or of other devices than the CPU.
  explicit ScriptModule(std::string path);

  const std::string& path() const { return path_; }
  const std::vector<Held>& parameters() const { return parameters_; }
  const std::vector<Held>& buffers() const { return buffers_; }
  // The arguments of forward without defaults, except self.
  const std::vector<std::string>& arguments() const { return arguments_; }
  // The arguments of forward, with those that have defaults.
  size_t max_arguments() const { return max_arguments_; }

  // Releases the values of the file, when the host has taken them.
  void drop_values();

  // Runs forward. Writes of the module to buffers change the given tensors.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& parameters,
                              const std::vector<at::Tensor>& buffers,
                              const std::vector<at::Tensor>& inputs,
                              bool is_train);

 private:
  void read_arguments();
  void collect();

  std::string path_;
  torch::jit::Module module_;
  std::vector<Held> parameters_;
  std::vector<Held> buffers_;
  std::vector<std::string> arguments_;
  size_t max_arguments_ = 0;
  std::optional<bool> is_train_;
};

#endif
