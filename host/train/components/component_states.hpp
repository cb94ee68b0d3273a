// SPDX-License-Identifier: Apache-2.0
//
// Saves and loads the states of a run's components. Each instance that has a state (state.h) gets
// one subtree, named after its role in the run. State that a component does not declare is not
// saved.
// Invariant: instances are borrowed; they may be moved, and outlive this object.
// Threads: the train thread.
#pragma once

#include "host/plugin/instance.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <functional>
#include <string>
#include <vector>

namespace tenon {

class ComponentStates final : public Stateful {
 public:
  // Adds an instance if it has a state. `role` is a path: "hooks/0". A second instance with the
  // same role becomes "hooks/0-2".
  // Errors  plugin.missing_interface
  void add(const std::string& role, const ComponentInstance& instance);

  // Returns the roles of the instances that have a state.
  std::vector<std::string> roles() const;

  // Errors  PluginError
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  // Errors  PluginError; state.missing_entry if a component has a state that the tree lacks
  void load(const StateTree& tree, const std::string& prefix) override;
  // The same if roles in the tree differ: `saved_role` returns the role that a component has in the
  // tree. A component for which it returns "" keeps its present state.
  void load(const StateTree& tree,
            const std::string& prefix,
            const std::function<std::string(const std::string& role)>& saved_role);

 private:
  struct Member {
    std::string role;
    StatefulProxy proxy;
  };
  std::vector<Member> members_;
};

}  // namespace tenon
