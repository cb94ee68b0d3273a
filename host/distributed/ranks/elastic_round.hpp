// SPDX-License-Identifier: Apache-2.0
//
// The number of times that an elastic launcher has started the ranks, determined through its store,
// which outlives them. Each torchrun agent counts its own restarts. These counts differ if ranks of
// one machine are restarted, and stay the same if a machine joins or leaves. So they show neither
// which ranks belong together nor which keys are old.
// Invariant: ranks that agree have a number that no earlier ranks had.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>

namespace tenon {

// Returns the number of this start, from 0; equal on all ranks that are started now. `store` is the
// store of the whole job.
// Errors   distributed.unreachable if rank 0, or on rank 0 any other rank, does not arrive before
//          `end`, or if the store is lost
// Threads  [main]
uint32_t agree_on_round(c10d::Store& store,
                        uint32_t rank,
                        uint32_t size,
                        std::chrono::steady_clock::time_point end);

}  // namespace tenon
