// SPDX-License-Identifier: Apache-2.0
//
// Rewrites a model's graph for a parameter that a parametrization computes (an adapter, a quantized
// weight). The real parameters and buffers join the graph as any others: they are initialized,
// sharded, gathered with their blocks, trained, saved and counted. Blocks still list the effective
// parameter, which block_weights.hpp computes in each call.
// Real parameters are divided among tensor ranks with the effective one.
// Invariants: indices of parameters, buffers and blocks keep their meaning; the effective parameter
// keeps its name. It stores the base, or nothing if the parametrization has no real of that name.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/instance.hpp"

#include <cstdint>
#include <string>

namespace tenon {

// Returns why no parametrization can replace a parameter ("it is made by a module"); "" if one can.
std::string unparametrizable(const ModelGraph& graph, uint32_t parameter);

// Returns why tensor ranks cannot divide a parameter with a split that a parametrization computes;
// "" if they can, and for other parameters.
std::string undividable(const ModelGraph& graph, uint32_t parameter);

// Lets `instance` compute a parameter, which must not be tied to another, and for which
// unparametrizable() returns "".
//
// Errors  parametrization.unsupported if the plugin refuses the parameter; parametrization.name_taken
//         if a name of a real or buffer exists; plugin.bad_result, plugin.missing_interface
void parametrize(ModelGraph& graph, uint32_t parameter, ComponentInstance instance);

// Returns the parametrization that computes a parameter, also by a tied name, or null.
const ModelParametrization* parametrization_of(const ModelGraph& graph, uint32_t parameter);

}  // namespace tenon
