// SPDX-License-Identifier: Apache-2.0
//
// How long values between blocks are needed: for the runner, which drops them, and for plans, which
// count the bytes.
// Threads: any.
#pragma once

#include "host/model/graph.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace tenon {

// Returns, by block, the values that no later block, loss, metric or lookup reads: the block is
// their last reader, or makes them and nothing reads them.
std::vector<std::vector<uint32_t>> last_read_values(const ModelGraph& graph);

// Returns whether a recompute of its unit makes the value again: recomputed blocks of that unit
// make and read it, and no other block does.
bool is_remade(const ModelGraph& graph,
               uint32_t value,
               const std::function<bool(uint32_t block)>& is_recomputed);

// Returns, by block, the values that can be moved out of memory after it, until backward reaches
// it: the block ends the last unit that reads the value, and all readers run again in backward
// (`is_light`). Excludes values that the last unit of the graph reads, and those of which `stays`
// is true.
std::vector<std::vector<uint32_t>> movable_values(
    const ModelGraph& graph,
    const std::function<bool(uint32_t block)>& is_light,
    const std::function<bool(uint32_t value)>& stays);

}  // namespace tenon
