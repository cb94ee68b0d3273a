// SPDX-License-Identifier: Apache-2.0
//
// Creates the components of a recipe, each after the components that its options name. A component
// that several options reference is created once.
// Invariant: components inside options live as long as the factory, which must outlive their users.
// Threads: [main].
#pragma once

#include "host/plugin/instance.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_states.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class ComponentFactory {
 public:
  // Owner  the arguments are borrowed
  ComponentFactory(PluginRegistry& registry, const Recipe& recipe, const tenon_mesh& mesh);

  // Creates a component. `role` is its role in the run ("model", "hooks/0"). The instance's seed
  // depends on the role, not on how the recipe is written.
  // Errors  plugin.*, errors of the component
  ComponentInstance create(const ComponentUse& use, std::string_view role);

  // Returns a component inside options, which is created once. `use` may be a reference.
  // Errors  as create()
  // Owner   the factory
  const ComponentInstance& nested(const ComponentUse& use);

  // States of all created components, by role. The role of a component inside options is "nested"
  // and its JSON pointer.
  ComponentStates& states() { return states_; }

  // Calls body(). If it fails because a file is missing in the folder where relative paths start,
  // the error says so. Creating a component, also inside options, does the same.
  // Errors  those of body()
  void explain_paths(const std::function<void()>& body) const;

  // Components inside options of those created so far, by JSON pointer.
  std::vector<const ComponentInstance*> nested_instances() const;

  const Recipe& recipe() const { return recipe_; }
  const tenon_mesh& mesh() const { return mesh_; }

 private:
  void index(const ComponentUse& use);
  ComponentInstance make(const ComponentUse& use, uint64_t seed);

  PluginRegistry& registry_;
  const Recipe& recipe_;
  const tenon_mesh& mesh_;
  std::map<std::string, const ComponentUse*> uses_;  // those inside options, by pointer
  std::map<std::string, std::unique_ptr<ComponentInstance>> shared_;
  ComponentStates states_;
};

}  // namespace tenon
