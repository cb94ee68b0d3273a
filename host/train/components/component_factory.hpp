// SPDX-License-Identifier: Apache-2.0
//
// Creates the components that a recipe uses, and before each those that its options name. What is
// named twice, by a reference, is created once. Invariant: a component that others were handed
// outlives them, as long as the factory does.
// Threads: [main].
#pragma once

#include "host/plugin/instance.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_states.hpp"

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace tenon {

class ComponentFactory {
 public:
  // All three are borrowed.
  ComponentFactory(PluginRegistry& registry, const Recipe& recipe, const tenon_mesh& mesh);

  // `role` distinguishes the uses of one run ("model", "hooks/0"): the instance's seed depends on
  // it, and not on how the recipe was written.
  // Errors  plugin.*, what the component refuses
  ComponentInstance create(const ComponentUse& use, std::string_view role);

  // Those of all components that were created, by role; inside options, "nested" and the pointer.
  ComponentStates& states() { return states_; }

  const Recipe& recipe() const { return recipe_; }
  const tenon_mesh& mesh() const { return mesh_; }

 private:
  void index(const ComponentUse& use);
  const ComponentInstance& nested(const ComponentUse& use);
  ComponentInstance make(const ComponentUse& use, uint64_t seed);

  PluginRegistry& registry_;
  const Recipe& recipe_;
  const tenon_mesh& mesh_;
  std::map<std::string, const ComponentUse*> uses_;  // inside options, by pointer
  std::map<std::string, std::unique_ptr<ComponentInstance>> shared_;
  ComponentStates states_;
};

}  // namespace tenon
