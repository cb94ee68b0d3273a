// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/run_models.hpp"

#include <tenon/ports.h>

#include "host/error/error.hpp"
#include "host/model/joined_graph.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/recipe_model.hpp"
#include "host/train/components/recipe_parametrizations.hpp"

#include <c10/core/ScalarType.h>

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
    ModelGraph graph = recipe_model(proxy, use);
    add_parametrizations(factory, use, graph);
    if (use.outputs == ModelOutputs::kStored) {
      add_stored(use, std::move(proxy), std::move(graph));
      return;
    }
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

RunModels::RunModels(const ModelUse& use, ModelProxy proxy, ModelGraph graph) {
  members_.push_back({.use = use, .proxy = std::move(proxy), .graph = std::move(graph)});
}

void RunModels::add_stored(const ModelUse& use, ModelProxy proxy, ModelGraph graph) {
  if (storable_outputs(graph).empty()) {
    throw Error("model.cannot_store",
                formatted("model '{}': \"outputs\" is \"stored\", but it has no output with a "
                          "number for each position, [B, T] (it has: {}); set it to \"computed\"",
                          use.name,
                          tenon::joined(graph.output_names())));
  }
  // The same checks as for a model in the graph.
  join_graphs(trained().graph,
              trained().use.name,
              {{.name = use.name, .graph = graph, .shares_parameters = false}});
  stored_.push_back({.use = use, .proxy = std::move(proxy), .graph = std::move(graph)});
}

std::vector<std::string> RunModels::stored_fields() const {
  std::vector<std::string> fields;
  for (const Member& member : stored_) {
    for (const std::string& output : storable_outputs(member.graph)) {
      fields.push_back(member.use.name + "/" + output);
    }
  }
  return fields;
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

std::vector<std::string> storable_outputs(const ModelGraph& graph) {
  std::vector<std::string> names;
  for (const ModelValue& value : graph.values) {
    const std::vector<Axis> axes = value.axes.value_or(std::vector<Axis>());
    const bool is_by_position = axes.size() == 2 && axes[0].name == "B" && axes[1].name == "T";
    const bool is_float = value.dtype >= TENON_CLASS_FIRST
                              ? value.dtype != TENON_CLASS_INTEGER
                              : at::isFloatingType(static_cast<at::ScalarType>(value.dtype));
    if (value.maker != kNoIndex && value.users.empty() && is_by_position && is_float) {
      names.push_back(value.name);
    }
  }
  return names;
}

}  // namespace tenon
