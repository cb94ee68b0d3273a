// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a model (contract: model.h). The builder passed to describe() receives the
// model's declarations; the proxy does not store them.

#pragma once

#include <tenon/model.h>

#include "host/plugin/instance.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

class ModelProxy {
 public:
  // Errors   plugin.missing_interface if `describe` or `forward` is missing
  // Threads  [main]
  explicit ModelProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }

  // Errors   PluginError, with the builder's error id if the builder reported the error
  // Threads  [main], once, before anything else
  void describe(tenon_model_builder& builder) const {
    instance_.call("describe", [&] { return table_->describe(instance_.self(), &builder); });
  }

  // Runs one block. If it throws, the caller releases handles that are already in `args`.
  //
  // Errors   PluginError
  // Threads  [step]
  void forward(const tenon_exec& exec, tenon_forward_args& args) const {
    instance_.call("forward", [&] { return table_->forward(instance_.self(), &exec, &args); });
  }

  bool has_backward() const noexcept { return has_backward_; }
  // Runs the backward pass of one block. Requires has_backward(). Errors and threads as forward().
  void backward(const tenon_exec& exec, const tenon_backward_args& args) const {
    instance_.call("backward", [&] { return table_->backward(instance_.self(), &exec, &args); });
  }

  // Creates the leaves of a block, which has `num_leaves` parameters. All are defined.
  //
  // Errors   PluginError; plugin.missing_interface; plugin.bad_result for a null or invalid leaf
  // Threads  [main], once per block
  std::vector<at::Tensor> materialize(const tenon_exec& exec,
                                      uint32_t block,
                                      std::size_t num_leaves) const;

  // Writes the initial values of a buffer into `tensor`.
  //
  // Errors   PluginError; plugin.missing_interface
  // Threads  [main], once per buffer
  void fill_buffer(const tenon_exec& exec, uint32_t buffer, tenon_tensor* tensor) const;

  bool has_infer() const noexcept { return has_infer_; }
  // Runs inference. Requires has_infer().
  //
  // Errors   PluginError
  // Threads  [any]
  void infer(const tenon_exec& exec, tenon_infer_args& args) const {
    instance_.call("infer", [&] { return table_->infer(instance_.self(), &exec, &args); });
  }

 private:
  ComponentInstance instance_;
  const tenon_model* table_;
  bool has_backward_;
  bool has_infer_;
};

}  // namespace tenon
