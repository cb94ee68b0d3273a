// SPDX-License-Identifier: Apache-2.0
//
// Averages of the trained parameters, which a hook updates after each applied update. Evaluations
// and exports use them. Each rank has the averages of its own slices.
// Invariant: the values of the parameters in training do not depend on the averages.
// Threads: the train thread.
#pragma once

#include "host/plugin/parameter_average_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class ParameterAverages final : public Stateful {
 public:
  // `groups` is borrowed and outlives this object.
  ParameterAverages(const ParameterAverageProxy& average,
                    std::vector<FlatGroup>& groups,
                    const ExecBase& base);

  // Called after each applied update.
  // Errors  plugin.failed
  void update(uint64_t step);
  // False before the first update: the parameters then are the values of evaluation.
  bool has_values() const { return num_updates_ > 0; }
  // Replaces the slices of the parameters by their averages. The caller publishes the slices.
  void use_averages();
  // Restores the values of training, bit for bit.
  void use_training_values();
  // Bytes of all averages.
  int64_t bytes() const;

  // Saves updates, and values/NAME: this rank's part of an average.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  // Starts over if the tree has no averages.
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  void allocate();
  template <class Take>
  void each_part(const std::string& prefix, Take take) const;

  const ParameterAverageProxy average_;
  std::vector<FlatGroup>& groups_;
  ExecFrame frame_;
  uint64_t num_updates_ = 0;
  std::vector<at::Tensor> averages_;  // by group; undefined for frozen groups; empty without values
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;  // slice, copy with the values of training
};

}  // namespace tenon
