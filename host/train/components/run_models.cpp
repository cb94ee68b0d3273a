// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/run_models.hpp"

#include "host/error/error.hpp"
#include "host/model/joined_graph.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/recipe_model.hpp"
#include "host/train/components/recipe_parametrizations.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tenon {

RunModels::RunModels(const Recipe& recipe, ComponentFactory& factory) {
  uint32_t num_parameters = 0;
  uint32_t num_buffers = 0;
  uint32_t num_parametrizations = 0;
  const auto add = [&](const ModelUse& use, const std::string& role) {
    ModelProxy proxy(factory.create(use.use, role));
    if (!use.parameters_of.empty() && use.parameters_of != recipe.model.name) {
      throw Error("model.cannot_share",
                  formatted("model '{}': \"parameters_of\" names '{}', expected the trained model "
                            "'{}'",
                            use.name,
                            use.parameters_of,
                            recipe.model.name));
    }
    ModelGraph graph = recipe_model(proxy, use);
    add_parametrizations(factory, use, graph);
    const auto parameters = static_cast<uint32_t>(graph.parameters.size());
    const auto buffers = static_cast<uint32_t>(graph.buffers.size());
    const auto parametrizations = static_cast<uint32_t>(graph.parametrizations.size());
    members_.push_back({.use = use,
                        .proxy = std::move(proxy),
                        .graph = std::move(graph),
                        .first_parameter = num_parameters,
                        .first_buffer = num_buffers,
                        .first_parametrization = num_parametrizations});
    num_parameters += use.parameters_of.empty() ? parameters : 0;
    num_buffers += buffers;
    num_parametrizations += parametrizations;
  };
  add(recipe.model, "model");
  for (const ModelUse& use : recipe.further_models) {
    add(use, "models/" + use.name);
  }
}

ModelList RunModels::list() {
  std::vector<ModelProxy*> proxies;
  for (Member& member : members_) {
    proxies.push_back(&member.proxy);
  }
  return ModelList(std::move(proxies));
}

ModelGraph RunModels::joined() const {
  std::vector<FurtherGraph> further;
  for (size_t i = 1; i < members_.size(); ++i) {
    further.push_back({.name = members_[i].use.name,
                       .graph = members_[i].graph,
                       .shares_parameters = !members_[i].use.parameters_of.empty()});
  }
  return join_graphs(trained().graph, trained().use.name, further);
}

}  // namespace tenon
