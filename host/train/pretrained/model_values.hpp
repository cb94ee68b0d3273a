// SPDX-License-Identifier: Apache-2.0
//
// The values of the models that a run does not train. They are read from the sources that the
// recipe names, at the start and at each resume, and never change. Checkpoints have only a
// fingerprint of them: a run resumes only with the same values.
// Threads: the train thread. All functions are collective calls, except those of Stateful.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/run_models.hpp"
#include "host/train/pretrained/pretrained.hpp"

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace tenon {

class ModelValues final : public Stateful {
 public:
  // Owner  all arguments are borrowed
  ModelValues(RunModels& models, ComponentFactory& factory, Group& ranks);

  // Adds a model whose outputs were stored, with its fingerprint. `use` is borrowed.
  void add_stored(const ModelUse& use, std::string fingerprint);
  // Opens the source of each model and checks it, before anything is allocated.
  // Errors  those of Pretrained::open
  void open();
  // Reads the values. Returns a line for users for each load. The caller publishes the parameters.
  // Errors  those of Pretrained::load_all
  std::vector<std::string> load(const LoadTargets& targets, ShardedParameters& sharded);

  // Saves the fingerprints by model.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  // Compares the fingerprints.
  // Errors  resume.model_changed
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  RunModels& models_;
  std::deque<Pretrained> loads_;                     // by model, without the trained one
  std::map<std::string, std::string> fingerprints_;  // by model
  std::vector<const ModelUse*> stored_;              // models whose outputs were stored
};

}  // namespace tenon
