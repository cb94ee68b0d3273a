// SPDX-License-Identifier: Apache-2.0
//
// The whole state of a run, as run_state_names.hpp lists it. It is saved at a boundary, loaded by a
// new run of the same recipe, or restored by a rollback during a run.
// Invariant: a snapshot waits for results from the device, and changes nothing else in the run.
// Threads: the train thread.
#pragma once

#include "host/tensor/state/state_tree.hpp"
#include "host/train/components/component_states.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/objective/metric_set.hpp"
#include "host/train/run_services.hpp"
#include "host/train/state_fields.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

class WholeState {
 public:
  // All are borrowed.
  WholeState(RunServices& run, FiniteCheck& finite_check);

  // Adds owners of the loop's fields, before the first snapshot or load. They are borrowed.
  void add(const std::vector<HasStateFields*>& owners) {
    loop_.insert(loop_.end(), owners.begin(), owners.end());
  }

  void snapshot(StateTree& tree) const;
  void snapshot_weights(StateTree& tree) const;

  // Loads everything except positions in datasets, which load_data() loads once the loop knows its
  // position. A rank may find that its part is corrupt.
  // Errors  state.bad_version; errors of the parts for a corrupt or foreign state
  void load(const StateTree& tree);
  void load_data(const StateTree& tree);
  // True if the position in the training data, or the state of its dataset, differs from that of
  // the last load(), or if nothing was loaded.
  bool has_new_position() const;

  // Loads trained state, and the fields of the loop that are rolled back. Positions in datasets,
  // and components that make batches or store checkpoints, stay as they are.
  void roll_back(const StateTree& tree);

 private:
  std::string saved_role(const StateTree& tree, const std::string& role) const;
  void load_trained(const StateTree& tree,
                    const std::function<std::string(const std::string& role)>& role_in);
  void load_loop(const StateTree& tree, FieldsToLoad which);

  using Part = std::pair<std::string, Stateful*>;  // a subtree and its owner

  RunServices& run_;
  FiniteCheck& finite_check_;
  std::vector<Part> trained_;  // loaded in this order
  std::vector<Part> data_;     // positions in datasets
  std::vector<Part> weights_;  // entries that exports use
  std::vector<HasStateFields*> loop_;
  StateTree loaded_position_;
};

}  // namespace tenon
