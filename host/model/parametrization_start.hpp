// SPDX-License-Identifier: Apache-2.0
//
// Starts parametrizations: each sets its reals and buffers so that the effective parameter has a
// given value. It sees whole tensors on the CPU; this rank then keeps its slices.
// Invariant: at most the tensors of one parametrization are whole at a time.
// Threads: the train thread. All functions are collective calls.
#pragma once

#include "host/model/parameter_store.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/tensor/exec_frame.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tenon {

// Returns the value of an effective parameter that is not stored, by index of its parametrization.
// Shapes  that of the effective parameter, on the CPU
using UnstoredValue = std::function<at::Tensor(uint32_t parametrization)>;

// Starts the parametrizations with these indices, after initialization or after a load of their
// bases, and publishes the results to blocks. `base` describes calls on the CPU.
// Errors  those of the plugins, with the parameter's name; distributed.failed
void start_parametrizations(const std::vector<uint32_t>& which,
                            ParameterStore& store,
                            ShardedParameters& sharded,
                            const ExecBase& base,
                            const UnstoredValue& unstored);

// Returns the initial value of an effective parameter that is not stored.
UnstoredValue drawn_value(const ParameterStore& store, uint64_t seed);

// Returns the indices of all parametrizations of a graph.
std::vector<uint32_t> all_parametrizations(const ModelGraph& graph);

}  // namespace tenon
