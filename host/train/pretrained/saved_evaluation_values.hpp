// SPDX-License-Identifier: Apache-2.0
//
// Converts parameters of a checkpoint, which holds the values of training, to the values of
// evaluation: the saved averages of a hook, or values that the optimizers of its recipe compute
// from their saved state. In all other checkpoints, and in exports, values stay as they are.
// Threads: any, one at a time.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/model/graph.hpp"
#include "host/model/parameter_store.hpp"
#include "host/plugin/optimizer_proxy.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/optimizer_groups.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace tenon {

class SavedEvaluationValues {
 public:
  // All are borrowed.
  // Errors  those of the optimizers' plugins
  SavedEvaluationValues(const CheckpointReader& reader,
                        const Recipe& recipe,
                        const ModelGraph& graph,
                        ComponentFactory& factory);

  // Returns the value of evaluation of an entry of the state, "parameters/values/NAME", from its
  // value of training.
  // Errors  state.missing_entry if the checkpoint lacks a slot; plugin.failed
  at::Tensor of(const std::string& entry, const at::Tensor& value);
  // Converts the parameters of a store on one rank, which holds the values of training.
  // Errors  as of()
  void convert(ParameterStore& store);

 private:
  struct Used {
    OptimizerProxy optimizer;
    ExecFrame frame;
  };

  // Read if an optimizer has evaluation values, or the checkpoint has averages.
  std::optional<StateTree> tree_;
  std::deque<Used> used_;  // optimizers that have values of evaluation
  std::map<std::string, Used*> by_entry_;
};

}  // namespace tenon
