// SPDX-License-Identifier: Apache-2.0
//
// How often the ranks of an elastic launcher were started, as they find out by its store, which
// outlives them. torchrun counts the restarts of each of its agents, which differ where ranks of
// one machine are started again, and counts none if a machine comes or goes; so its count says
// neither who belongs together nor which keys are old.
// Invariant: ranks that agree have a number that no earlier ones had.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>

namespace tenon {

// The number of this start, from 0 on; the same on all ranks that are started now. `store` is that
// of the whole job.
// Errors   distributed.unreachable if rank 0, or on rank 0 any other, does not come before `end`
// Threads  [main]
uint32_t agree_on_round(c10d::Store& store,
                        uint32_t rank,
                        uint32_t size,
                        std::chrono::steady_clock::time_point end);

}  // namespace tenon
