// SPDX-License-Identifier: Apache-2.0
//
// The state of one metric over one stretch of the run: the tensors that the metric declares. The
// metric's `update` changes them. They are merged with those of the next stretch, or of other
// ranks, by their declared reductions. Inputs and names of metrics belong to metric_set.hpp.
// Invariants: no function except compute() and merge_ranks() waits for a device; the first update
// creates the tensors, on the device of its inputs.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/plugin/metric_proxy.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace tenon {

class MetricState final : public Stateful {
 public:
  // `metric` is borrowed.
  explicit MetricState(const MetricProxy& metric) : metric_(&metric) {}

  // Discards all tensors; the next update starts from initial values.
  void reset();

  // Adds one microbatch, whose tensors are on `device`.
  // Errors  PluginError; plugin.bad_result if appended rows differ from the declaration
  void update(const tenon_exec& exec,
              const tenon_tensor* const* inputs,
              size_t num_inputs,
              at::Device device);

  // Merges the later state `next` of the same metric into this one.
  // Errors  PluginError
  void merge(const tenon_exec& exec, const MetricState& next);

  // Merges the states of all ranks, in rank order. A collective call.
  // Errors  PluginError; distributed.failed
  void merge_ranks(const tenon_exec& exec, Group& ranks);

  // Returns the metrics, in the order of the metric's info.
  // Errors  PluginError
  std::vector<double> compute(const tenon_exec& exec);

  // Saves the state of this rank, one entry for each declared tensor, by name.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  void start(const tenon_exec& exec, at::Device device);
  at::Tensor whole(size_t i) const;
  // Handles by state; null for CONCAT.
  std::vector<tenon_tensor*> handles_in_place();
  // Handles by state; null for all reductions except OWN.
  std::vector<tenon_tensor*> handles_of_own();

  const MetricProxy* metric_;
  bool is_started_ = false;
  std::vector<at::Tensor> tensors_;             // by state; undefined for CONCAT
  std::vector<std::vector<at::Tensor>> parts_;  // by state: the rows of CONCAT
};

}  // namespace tenon
