// SPDX-License-Identifier: Apache-2.0
//
// Reports how much memory each use held when memory ran out: a sentence for the error
// run.out_of_memory.

#pragma once

#include "host/device/gpu.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// Memory whose use the host knows, in bytes, on the run's device.
struct HeldMemory {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t tables = 0;  // in host memory
  int64_t batches = 0;

  int64_t sum() const { return parameters + gradients + optimizer + batches; }
};

// For a GPU: reports the memory at the refused allocation; `now` if there is none.
std::string gpu_memory_report(const HeldMemory& held,
                              const GpuMemory& now,
                              const std::optional<RefusedMemory>& refused);

// For the CPU: `resident` is the resident memory of the process, in bytes.
std::string cpu_memory_report(const HeldMemory& held, int64_t resident);

// Returns the resident memory of this process, in bytes; 0 if it cannot be read.
int64_t resident_bytes();

struct RunServices;

// Describes the memory that a run holds, with batches of this size. Called after an error, when the
// tensors of the step may already be freed.
std::string memory_report(const RunServices& run, int64_t batch_bytes);

}  // namespace tenon
