// SPDX-License-Identifier: Apache-2.0
//
// The states of a run's components: of each instance that offers one (state.h), below the role it
// has in the run. What a component does not declare there is not known here.
// Invariant: it borrows the instances, which may be moved, and outlive it.
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
  // Takes the instance in, if it has a state. `role` is a path: "hooks/0"; a second one of a role
  // is "hooks/0-2".
  // Errors  plugin.missing_interface
  void add(const std::string& role, const ComponentInstance& instance);

  // The roles of those that have a state.
  std::vector<std::string> roles() const;

  // Errors  PluginError
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  // Errors  PluginError; state.missing_entry if a component has a state that the tree lacks
  void load(const StateTree& tree, const std::string& prefix) override;
  // The same where `saved_role` says which role a component had in the tree; "" for one that was
  // not there, and keeps the state that it has.
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
