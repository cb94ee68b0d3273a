// SPDX-License-Identifier: Apache-2.0
#include "host/model/parametrized_graph.hpp"

#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/plugin/parametrization_proxy.hpp"
#include "host/tensor/dtype.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Returns all blocks that use a parameter, also by a tied name, ascending.
std::vector<uint32_t> users_of(const ModelGraph& graph, uint32_t p) {
  std::vector<uint32_t> users;
  for (uint32_t q = 0; q < graph.parameters.size(); ++q) {
    if (q == p || graph.parameters[q].same_as == p) {
      const auto& blocks = graph.parameters[q].blocks;
      users.insert(users.end(), blocks.begin(), blocks.end());
    }
  }
  std::ranges::sort(users);
  const auto end = std::ranges::unique(users);
  users.erase(end.begin(), end.end());
  return users;
}

std::string full_name(const ModelGraph& graph, uint32_t p, const std::string& suffix) {
  const std::string name = graph.parameters[p].name + suffix;
  const auto is_taken = [&name](const auto& other) { return other.name == name; };
  if (std::ranges::any_of(graph.parameters, is_taken) ||
      std::ranges::any_of(graph.buffers, is_taken)) {
    throw Error("parametrization.name_taken",
                "the parametrization of '" + graph.parameters[p].name + "' declares '" + name +
                    "', which the model already has; use another parametrization for it");
  }
  return name;
}

std::shared_ptr<const ParametrizationProxy> described(ComponentInstance instance,
                                                      const ModelParameter& parameter) {
  const EffectiveSpec effective{.name = parameter.name,
                                .shape = parameter.shape,
                                .dtype = parameter.dtype,
                                .flags = parameter.flags};
  const std::string place = instance.place();
  try {
    return std::make_shared<const ParametrizationProxy>(std::move(instance), effective);
  } catch (const PluginError& error) {
    if (error.code() != TENON_UNSUPPORTED) {
      throw;
    }
    throw Error("parametrization.unsupported",
                place + ": cannot replace '" + parameter.name + "': " + error.message() +
                    "; let \"match\" leave this parameter out");
  }
}

// Returns whether tensor ranks may divide a parameter, or use it in a divided region, if `proxy`
// computes it for the blocks `users`.
bool can_divide(const ModelGraph& graph,
                uint32_t parameter,
                const std::vector<uint32_t>& users,
                const ParametrizationProxy& proxy) {
  const std::optional<ModelSplit>& split = graph.parameters[parameter].split;
  return (!split.has_value() || proxy.is_divisible(split->axis)) &&
         std::ranges::all_of(
             users, [&graph](uint32_t b) { return graph.blocks[b].has(TENON_BLOCK_DIVISIBLE); });
}

// Lets tensor ranks divide a real parameter beside the base as they divide `like`, the effective
// one, or marks it as used whole in the divided region.
void divide_real(const RealSpec& real, const ModelParameter& like, ModelParameter& added) {
  if (like.split.has_value()) {
    const uint32_t axis = real.axes[like.split->axis];
    if (axis != TENON_NO_INDEX) {
      added.split = {.axis = axis, .parts = like.split->parts, .units = like.split->units};
      return;
    }
    added.flags |= TENON_PARAM_INSIDE;
  }
  added.flags |= like.flags & TENON_PARAM_INSIDE;
}

}  // namespace

std::string unparametrizable(const ModelGraph& graph, uint32_t parameter) {
  const ModelParameter& one = graph.parameters[parameter];
  if (one.parametrization != kNoIndex) {
    return "another parametrization replaces it";
  }
  if (is_dtype(one.dtype) && !c10::isFloatingType(static_cast<at::ScalarType>(one.dtype))) {
    return "its elements are no floating-point numbers";
  }
  for (const uint32_t b : users_of(graph, parameter)) {
    const ModelBlock& block = graph.blocks[b];
    if (block.has(TENON_BLOCK_MATERIALIZED)) {
      return "block '" + block.name + "' makes it in a module, which keeps its own tensor";
    }
    if (block.has(TENON_BLOCK_HAND_WRITTEN)) {
      return "block '" + block.name + "' has its own backward";
    }
  }
  return {};
}

void parametrize(ModelGraph& graph, uint32_t parameter, ComponentInstance instance) {
  ModelParametrization made;
  made.parameter = parameter;
  made.shape = graph.parameters[parameter].shape;
  made.dtype = graph.parameters[parameter].dtype;
  made.proxy = described(std::move(instance), graph.parameters[parameter]);
  const std::vector<uint32_t> users = users_of(graph, parameter);
  const bool is_dividable = can_divide(graph, parameter, users, *made.proxy);
  for (const RealSpec& real : made.proxy->reals()) {
    if (real.suffix.empty()) {
      ModelParameter& base = graph.parameters[parameter];
      base.dtype = real.dtype;
      base.flags |= real.flags;
      made.has_base = true;
      made.reals.push_back(parameter);
      continue;
    }
    ModelParameter added;
    added.name = full_name(graph, parameter, real.suffix);
    added.shape = real.shape;
    added.dtype = real.dtype;
    added.flags = real.flags;
    added.init = real.init;
    added.init_a = real.init_a;
    added.init_b = real.init_b;
    added.blocks = users;
    if (is_dividable) {
      divide_real(real, graph.parameters[parameter], added);
    }
    const auto index = static_cast<uint32_t>(graph.parameters.size());
    graph.parameters.push_back(std::move(added));
    made.reals.push_back(index);
    for (const uint32_t b : users) {
      graph.blocks[b].parameters.push_back(index);
      ++graph.blocks[b].num_reals;
    }
  }
  for (const RealBufferSpec& buffer : made.proxy->buffers()) {
    const auto index = static_cast<uint32_t>(graph.buffers.size());
    graph.buffers.push_back({.name = full_name(graph, parameter, buffer.suffix),
                             .shape = buffer.shape,
                             .dtype = buffer.dtype,
                             .kind = buffer.kind,
                             .is_real = true});
    made.buffers.push_back(index);
    for (const uint32_t b : users) {
      graph.blocks[b].buffers.push_back(index);
      ++graph.blocks[b].num_real_buffers;
    }
  }
  ModelParameter& effective = graph.parameters[parameter];
  effective.parametrization = static_cast<uint32_t>(graph.parametrizations.size());
  if (!made.has_base) {
    // Nothing is stored under this name, so nothing is trained or saved under it.
    effective.shape = {0};
    effective.flags |= TENON_PARAM_FROZEN;
  }
  graph.parametrizations.push_back(std::move(made));
}

std::string undividable(const ModelGraph& graph, uint32_t parameter) {
  const ModelParametrization* const made = parametrization_of(graph, parameter);
  const std::optional<ModelSplit>& split = graph.parameters[parameter].split;
  if (made == nullptr || !split.has_value() || made->proxy->is_divisible(split->axis)) {
    return {};
  }
  return formatted("{} computes it, and declares no division along axis {}",
                   made->proxy->instance().identity().describe(),
                   split->axis);
}

const ModelParametrization* parametrization_of(const ModelGraph& graph, uint32_t parameter) {
  const ModelParameter& named = graph.parameters[parameter];
  const ModelParameter& one = named.same_as == kNoIndex ? named : graph.parameters[named.same_as];
  return one.parametrization == kNoIndex ? nullptr : &graph.parametrizations[one.parametrization];
}

}  // namespace tenon
