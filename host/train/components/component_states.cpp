// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/component_states.hpp"

#include "host/error/error.hpp"
#include "host/tensor/state/state_bridge.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <utility>

namespace tenon {

void ComponentStates::add(const std::string& role, const ComponentInstance& instance) {
  auto proxy = StatefulProxy::of(instance);
  if (!proxy) {
    return;
  }
  const auto is_taken = [this](const std::string& name) {
    return std::ranges::any_of(members_, [&](const Member& m) { return m.role == name; });
  };
  std::string name = role;
  for (int number = 2; is_taken(name); ++number) {
    name = formatted("{}-{}", role, number);
  }
  members_.push_back({std::move(name), *proxy});
}

std::vector<std::string> ComponentStates::roles() const {
  std::vector<std::string> roles;
  for (const Member& member : members_) {
    roles.push_back(member.role);
  }
  return roles;
}

void ComponentStates::snapshot(StateTree& tree, const std::string& prefix) const {
  for (const Member& member : members_) {
    StateWriter writer(
        tree, state_path(prefix, member.role), member.proxy.version(), member.proxy.host());
    member.proxy.snapshot(*writer.abi());
  }
}

void ComponentStates::load(const StateTree& tree, const std::string& prefix) {
  load(tree, prefix, [](const std::string& role) { return role; });
}

void ComponentStates::load(const StateTree& tree,
                           const std::string& prefix,
                           const std::function<std::string(const std::string& role)>& saved_role) {
  for (const Member& member : members_) {
    const std::string role = saved_role(member.role);
    if (role.empty()) {
      continue;
    }
    const std::string path = state_path(prefix, role);
    if (!tree.has_subtree(path)) {
      throw Error("state.missing_entry",
                  member.proxy.identity().describe() + ": the saved state has no entry for '" +
                      path + "'; load it into the run that saved it");
    }
    StateReader reader(tree, path, member.proxy.host());
    member.proxy.load(*reader.abi());
  }
}

}  // namespace tenon
