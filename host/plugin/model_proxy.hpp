// SPDX-License-Identifier: Apache-2.0
//
// A model, as the host calls it (model.h has the contract). What it declares goes to the builder
// that describe() is given; this class keeps nothing of it.

#pragma once

#include <tenon/model.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <span>

namespace tenon {

class ModelProxy {
 public:
  // Errors   plugin.missing_interface if `describe` or `forward` is missing
  // Threads  [main]
  explicit ModelProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }

  // Errors   PluginError, with the builder's own id where the builder refused
  // Threads  [main], once, before anything else
  void describe(tenon_model_builder& builder) const {
    instance_.call("describe", [&] { return table_->describe(instance_.self(), &builder); });
  }

  // Runs one block. When it throws, handles already in `args` are the caller's to release.
  //
  // Errors   PluginError
  // Threads  [step]
  void forward(const tenon_exec& exec, tenon_forward_args& args) const {
    instance_.call("forward", [&] { return table_->forward(instance_.self(), &exec, &args); });
  }

  bool has_backward() const noexcept { return has_backward_; }
  // Only where has_backward(); otherwise as forward().
  void backward(const tenon_exec& exec, const tenon_backward_args& args) const {
    instance_.call("backward", [&] { return table_->backward(instance_.self(), &exec, &args); });
  }

  // The leaves of a materialized block, into `leaves_own`, none of them null.
  //
  // Errors   PluginError; plugin.missing_interface; plugin.bad_result for a leaf that is null
  // Threads  [main], once a block
  // Owner    the caller releases the handles, those put in before an error too
  void materialize(const tenon_exec& exec,
                   uint32_t block,
                   std::span<tenon_tensor*> leaves_own) const;

  // Writes the first value of a buffer into `tensor`.
  //
  // Errors   PluginError; plugin.missing_interface
  // Threads  [main], once a buffer
  void fill_buffer(const tenon_exec& exec, uint32_t buffer, tenon_tensor* tensor) const;

  bool has_infer() const noexcept { return has_infer_; }
  // Only where has_infer().
  //
  // Errors   PluginError
  // Threads  [any]
  void infer(tenon_infer_args& args) const {
    instance_.call("infer", [&] { return table_->infer(instance_.self(), &args); });
  }

 private:
  ComponentInstance instance_;
  const tenon_model* table_;
  bool has_backward_;
  bool has_infer_;
};

}  // namespace tenon
