// SPDX-License-Identifier: Apache-2.0
//
// A model plugin with what the host runs it by (parameter store, block runner), driven by hand:
// weights in, a batch through, gradients out.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/model_runner.hpp"
#include "host/model/parameter_store.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/exec_frame.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace tenon {

class ModelRig {
 public:
  // Makes the model with options as JSON, and gives its parameters their first values.
  ModelRig(const std::string& type,
           const std::string& options,
           at::ScalarType dtype = at::kFloat,
           RecomputeMode recompute = RecomputeMode::kNone);

  // Runs all blocks on a batch of these fields.
  void forward(const std::map<std::string, at::Tensor>& fields,
               const CallPlace& place = {1, 0, true});
  // What a block made in the last forward.
  at::Tensor output(const std::string& name) const;
  // Backward from a gradient of one output; fresh gradients each time.
  void backward(const std::string& output, const at::Tensor& grad);

  // Sets, reads a parameter and reads its gradient, by name.
  void set_parameter(const std::string& name, const at::Tensor& value);
  at::Tensor parameter(const std::string& name) const;
  at::Tensor grad(const std::string& name) const;
  at::Tensor buffer(const std::string& name);

  const ModelGraph& graph() const { return graph_; }
  const ModelRunner& runner() const { return runner_; }

 private:
  uint32_t parameter_index(const std::string& name) const;

  ModelProxy proxy_;
  ModelGraph graph_;
  ParameterStore store_;
  ExecBase base_;
  ExecFrame frame_;
  ModelRunner runner_;
};

}  // namespace tenon
