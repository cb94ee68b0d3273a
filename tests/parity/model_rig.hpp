// SPDX-License-Identifier: Apache-2.0
//
// A model plugin with what the host runs it by (parameter store, block runner), driven by hand:
// weights and rows of tables in, a batch through, gradients out.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/row_source.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/exec_frame.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/one_row_pass.hpp"
#include "tests/support/test_runner.hpp"

namespace tenon {

class ModelRig {
 public:
  // Makes the model with options as JSON, and gives its parameters their first values. `edit` may
  // change its graph before: add parametrizations.
  ModelRig(const std::string& type,
           const std::string& options,
           at::ScalarType dtype = at::kFloat,
           RecomputeMode recompute = RecomputeMode::kNone);
  // The same, with only the blocks that these outputs need.
  ModelRig(const std::string& type,
           const std::string& options,
           at::ScalarType dtype,
           RecomputeMode recompute,
           const std::vector<std::string>& outputs);
  // Both: only the blocks that these outputs need, after `edit` changed the graph.
  ModelRig(const std::string& type,
           const std::string& options,
           at::ScalarType dtype,
           RecomputeMode recompute,
           const std::vector<std::string>& outputs,
           const std::function<void(ModelGraph&)>& edit);
  // The same with all blocks, after `edit` changed the graph: added parametrizations.
  ModelRig(const std::string& type,
           const std::string& options,
           at::ScalarType dtype,
           RecomputeMode recompute,
           const std::function<void(ModelGraph&)>& edit);

  // Runs all blocks on a batch of these fields.
  void forward(const std::map<std::string, at::Tensor>& fields,
               const CallPoint& point = {1, 0, true});
  // What a block made in the last forward.
  at::Tensor output(const std::string& name);
  // Backward from a gradient of one output; fresh gradients each time.
  void backward(const std::string& output, const at::Tensor& grad);
  // The same from gradients of several outputs.
  void backward(const std::vector<std::pair<std::string, at::Tensor>>& grads);

  // Sets what comes of the table for a value, by the value's name, and reads its gradient.
  void set_rows(const std::string& value, const at::Tensor& rows);
  at::Tensor row_grad(const std::string& value) const;

  // Sets, reads a parameter and reads its gradient, by name.
  void set_parameter(const std::string& name, const at::Tensor& value);
  at::Tensor parameter(const std::string& name) const;
  at::Tensor grad(const std::string& name) const;
  at::Tensor buffer(const std::string& name);

  const ModelGraph& graph() const { return graph_; }
  TestRunner& runner() { return runner_; }

 private:
  ModelRig(const std::string& type,
           const std::string& options,
           at::ScalarType dtype,
           RecomputeMode recompute,
           const std::vector<std::string>* outputs,
           const std::function<void(ModelGraph&)>& edit);

  // Rows as they were set, whatever the ids.
  class GivenRows final : public OneRowPass {
   public:
    void start(const Batch* batch, const CallPoint& point, Lookup lookup) override;
    at::Tensor rows(uint32_t v, const at::Tensor& ids) override;
    void take_grad(uint32_t v, const at::Tensor& grad) override;

    std::map<uint32_t, at::Tensor> given;
    std::map<uint32_t, at::Tensor> grads;
  };

  void start_parametrizations();
  uint32_t value_index(const std::string& name) const;
  uint32_t parameter_index(const std::string& name) const;

  ModelProxy proxy_;
  ModelGraph graph_;
  ParameterStore store_;
  ExecBase base_;
  ExecFrame frame_;
  GivenRows rows_;
  TestRunner runner_;
};

}  // namespace tenon
