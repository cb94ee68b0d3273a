// SPDX-License-Identifier: Apache-2.0
//
// The whole state of a run, as run_state_names.hpp lists it: taken at a boundary, loaded by a fresh
// run of the same recipe, or rolled back to in the middle of a run.
// Invariant: taking a state changes nothing of the run, except that what a device has found so far
// is waited for.
// Threads: the train thread.
#pragma once

#include "host/tensor/state/state_tree.hpp"
#include "host/train/components/component_states.hpp"
#include "host/train/objective/metric_set.hpp"
#include "host/train/state_fields.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

class WholeState {
 public:
  // A subtree and its owner.
  using Part = std::pair<std::string, Stateful*>;
  // All are borrowed.
  struct Parts {
    std::vector<Part> trained;              // loaded in this order
    std::vector<Part> data;                 // positions in datasets
    std::vector<Part> weights;              // what exports take
    ComponentStates* components = nullptr;  // null if none has a state
    MetricSet* metrics = nullptr;           // null if there are none
    std::function<void()> before_snapshot;  // may be empty
  };
  explicit WholeState(Parts parts) : parts_(std::move(parts)) {}

  // Adds owners of the loop's fields, before anything is taken or loaded. They are borrowed.
  void add(const std::vector<HasStateFields*>& owners) {
    loop_.insert(loop_.end(), owners.begin(), owners.end());
  }

  void snapshot(StateTree& tree) const;
  void snapshot_weights(StateTree& tree) const;

  // Everything except positions in datasets: load_data() takes them, once the loop knows its place.
  // A rank may find that its part is corrupt.
  // Errors  state.bad_version; what the parts say of a corrupt or foreign state
  void load(const StateTree& tree);
  void load_data(const StateTree& tree);

  // Loads what was learned, and the fields of the loop that are not kept. Positions in datasets and
  // components that make batches or keep checkpoints stay as they are.
  void roll_back(const StateTree& tree);

 private:
  std::string saved_role(const StateTree& tree, const std::string& role) const;
  void load_trained(const StateTree& tree,
                    const std::function<std::string(const std::string& role)>& role_in);
  void load_loop(const StateTree& tree, FieldsToLoad which);

  Parts parts_;
  std::vector<HasStateFields*> loop_;
};

}  // namespace tenon
