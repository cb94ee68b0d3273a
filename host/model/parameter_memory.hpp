// SPDX-License-Identifier: Apache-2.0
//
// Bytes that a rank holds for as long as it trains: parameters, gradients, optimizer state and
// buffers. Computed from the layout of the parameters, before anything is allocated. Nothing that
// is temporary counts: activations, batches, gathered parameters, rows of tables.
// Invariant: ParameterStore and OptimizerDriver allocate at least these bytes.
// Threads: any.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/parameter_store.hpp"

#include <functional>

namespace tenon {

// In bytes; a double, because the sum over the ranks of a machine can exceed 64 bits.
struct HeldBytes {
  double parameters = 0;  // buffers included
  double gradients = 0;
  double optimizer = 0;

  double sum() const { return parameters + gradients + optimizer; }
};

struct ParameterMemory {
  HeldBytes on_device;  // on which blocks run
  HeldBytes offloaded;  // in host memory, if that is not the device
};

// `state_bytes(partition, stored)` returns the bytes of optimizer state for one element of dtype
// `stored`.
ParameterMemory parameter_memory(
    const ModelGraph& graph,
    const ParameterLayout& layout,
    const std::function<double(uint32_t partition, at::ScalarType stored)>& state_bytes);

}  // namespace tenon
