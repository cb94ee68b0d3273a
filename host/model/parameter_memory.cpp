// SPDX-License-Identifier: Apache-2.0
//
// Source: the constructors of FlatGroup and ParameterStore, which allocate these bytes.
#include "host/model/parameter_memory.hpp"

#include <tenon/ports.h>

#include "host/model/group_layout.hpp"

#include <algorithm>

namespace tenon {
namespace {

double size_of(at::ScalarType dtype) {
  return static_cast<double>(c10::elementSize(dtype));
}

double elements_of(const std::vector<int64_t>& shape) {
  double product = 1;
  for (const int64_t size : shape) {
    product *= static_cast<double>(size);
  }
  return product;
}

// Returns the elements of the copies that blocks get of parts of a group.
double copied_elements(const ModelGraph& graph, const GroupLayout& group) {
  double elements = 0;
  for (const uint32_t p : group.parameters) {
    const ModelParameter& parameter = graph.parameters[p];
    const std::optional<Box> seen = parameter.seen_part();
    elements += seen && needs_copy(parameter.shape, *seen) ? elements_of(seen->size) : 0;
  }
  return elements;
}

// A slice may hold parameters of one partition only: the one with the least state is certain.
double least_state(
    const GroupLayout& group,
    const std::function<double(uint32_t partition, at::ScalarType stored)>& state_bytes) {
  double least = state_bytes(group.partitions.front(), group.stored);
  for (const uint32_t partition : group.partitions) {
    least = std::min(least, state_bytes(partition, group.stored));
  }
  return least;
}

}  // namespace

ParameterMemory parameter_memory(
    const ModelGraph& graph,
    const ParameterLayout& layout,
    const std::function<double(uint32_t partition, at::ScalarType stored)>& state_bytes) {
  ParameterMemory memory;
  const at::ScalarType seen_class = layout.seen_dtype.value_or(layout.dtype);
  for (const GroupLayout& group : lay_out_groups(graph,
                                                 {.stored = layout.dtype,
                                                 .seen = seen_class,
                                                 .partition_of = layout.partition_of,
                                                 .is_unsharded = layout.is_unsharded,
                                                 .block_of = layout.block_of})) {
    if (group.is_elsewhere) {
      continue;
    }
    const FlatSharing sharing = layout.sharing_of(group);
    const bool is_at_home = sharing.home.value_or(layout.device) == layout.device;
    const bool keeps_parameters = sharing.keeps_parameters && is_at_home;
    const bool keeps_gradients = sharing.keeps_gradients && is_at_home;
    HeldBytes& home = is_at_home ? memory.on_device : memory.offloaded;
    const auto whole = static_cast<double>(group.flat_numel(sharing.num_slices));
    const double slice = whole / static_cast<double>(sharing.num_slices);
    const double stored = size_of(group.stored);
    if (keeps_parameters) {
      memory.on_device.parameters += (whole + copied_elements(graph, group)) * size_of(group.seen);
    }
    if (!keeps_parameters || group.seen != group.stored) {
      home.parameters += slice * stored;
    }
    if (group.is_trainable && sharing.frees_gradients) {
      home.optimizer += slice * least_state(group, state_bytes);
    } else if (group.is_trainable) {
      (keeps_gradients ? memory.on_device : home).gradients +=
          (keeps_gradients ? whole : slice) * stored;
      home.optimizer += slice * least_state(group, state_bytes);
    }
  }
  for (const ModelBuffer& buffer : graph.buffers) {
    const at::ScalarType dtype =
        buffer.dtype >= TENON_CLASS_FIRST ? seen_class : static_cast<at::ScalarType>(buffer.dtype);
    memory.on_device.parameters += elements_of(buffer.shape) * size_of(dtype);
  }
  return memory;
}

}  // namespace tenon
