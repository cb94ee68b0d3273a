// SPDX-License-Identifier: Apache-2.0
//
// Compares the memory that a run holds for its whole length with the memory that is available,
// before the run allocates it.
// Invariant: only memory that the run certainly needs counts, so that no run that fits is refused.
// Threads: [main].
#pragma once

#include "host/device/gpu.hpp"
#include "host/device/machine_memory.hpp"
#include "host/model/parameter_memory.hpp"

#include <cstdint>
#include <optional>

namespace tenon {

struct RunContext;
struct RunPlan;

// Memory that a run may use; nothing if unknown.
struct UsableMemory {
  std::optional<AvailableMemory> machine;
  std::optional<GpuMemory> gpu;  // nothing if the run computes on the CPU
};

// `ranks` is the number of ranks of this machine, each of which needs `memory`.
// Errors  run.too_large
void check_fits(const ParameterMemory& memory, uint32_t ranks, const UsableMemory& at_hand);

// Same, for the parameters, gradients and optimizer state of a run. Call it before any rank of this
// machine allocates them.
// Errors  run.too_large
void check_memory(const RunContext& context, const RunPlan& plan);

}  // namespace tenon
