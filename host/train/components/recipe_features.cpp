// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recipe_features.hpp"

#include "host/tensor/op_service.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/tensor_service.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace tenon {
namespace {

// Returns a key of a feature's step. Steps with equal keys and inputs are computed once.
std::string step_identity(const ComponentUse& use) {
  return use.plugin_id + "/" + use.type.substr(use.type.rfind('/') + 1) + " " + use.options;
}

}  // namespace

FeaturePlan plan_features(ComponentFactory& factory, std::vector<const FeatureUse*> features) {
  FeaturePlan plan;
  for (const FeatureUse* const feature : features) {
    FeatureDefinition& definition = plan.definitions.emplace_back(
        FeatureDefinition{.name = feature->name, .from = feature->from, .steps = {}});
    for (const ComponentUse& step : feature->steps) {
      definition.steps.push_back({.type = step.type, .identity = step_identity(step)});
    }
  }
  plan.exec = {.seed = mix_seeds(factory.recipe().seed, stream_of("features")),
               .mesh = &factory.mesh(),
               .tensors = tensor_service(),
               .ops = op_service()};
  plan.make = [&factory, features = std::move(features)](std::size_t feature, std::size_t step) {
    const ComponentUse& use = features[feature]->steps[step];
    return FeatureProxy(factory.create(use, "features:" + step_identity(use)));
  };
  return plan;
}

}  // namespace tenon
