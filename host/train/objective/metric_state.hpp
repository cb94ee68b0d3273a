// SPDX-License-Identifier: Apache-2.0
//
// What one metric has gathered over one stretch of the run: the tensors that it declared. They are
// changed by the metric's `update`, and become one with those of the next stretch, or of other
// ranks, as each declares. It knows no inputs and no names of figures.
// Invariants: no call but compute() and merge_ranks() waits for a device; tensors are made by the
// first update, on the device of its inputs.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/plugin/metric_proxy.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon {

class MetricState final : public Stateful {
 public:
  // `metric` is borrowed.
  explicit MetricState(const MetricProxy& metric) : metric_(&metric) {}

  // Forgets all.
  void reset();

  // Takes one microbatch, whose tensors lie on `device`.
  // Errors  PluginError; plugin.bad_result if appended rows are not as declared
  void update(const tenon_exec& exec,
              const tenon_tensor* const* inputs,
              size_t num_inputs,
              at::Device device);

  // Takes what `next`, of the same metric, has gathered after this.
  // Errors  PluginError
  void merge(const tenon_exec& exec, const MetricState& next);

  // Takes what all ranks have gathered, in their order. A collective call.
  // Errors  PluginError; distributed.failed
  void merge_ranks(const tenon_exec& exec, Collective& collective);

  // The metrics, in the order of the metric's info.
  // Errors  PluginError
  std::vector<double> compute(const tenon_exec& exec);

  // What this rank has gathered: states by their names.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  void start(const tenon_exec& exec, at::Device device);
  at::Tensor whole(size_t i) const;
  // Handles by state; null for those of CONCAT, or of any reduction but OWN.
  std::vector<tenon_tensor*> handles_in_place();
  std::vector<tenon_tensor*> handles_of_own();

  const MetricProxy* metric_;
  bool is_started_ = false;
  std::vector<at::Tensor> tensors_;             // by state; undefined for CONCAT
  std::vector<std::vector<at::Tensor>> parts_;  // by state: the rows of CONCAT
};

}  // namespace tenon
