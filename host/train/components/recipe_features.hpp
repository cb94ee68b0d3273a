// SPDX-License-Identifier: Apache-2.0
//
// The recipe's features in the form of a FeatureGraph: their definitions, and how their steps are
// created.
#pragma once

#include "host/data/feature_graph.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/train/components/component_factory.hpp"

#include <vector>

namespace tenon {

struct FeaturePlan {
  std::vector<FeatureDefinition> definitions;
  ExecBase exec;
  FeatureGraph::MakeFeature make;
};

// Plans features of the factory's recipe. Equal steps have equal seeds wherever they occur, so that
// they can be computed once. `features` point into the recipe; the factory is borrowed.
FeaturePlan plan_features(ComponentFactory& factory, std::vector<const FeatureUse*> features);

}  // namespace tenon
