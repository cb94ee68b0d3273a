// SPDX-License-Identifier: Apache-2.0
//
// Which blocks can run on tiles of positions, for the runner and for plans.
// Threads: any.
#pragma once

#include "host/model/graph.hpp"

#include <vector>

namespace tenon {

// Returns by block whether ModelRunner::tile_blocks applies to it: it can run in chunks of T
// (joined_graph.hpp), its forward may be repeated, autograd makes its backward, and it has no state
// buffer.
std::vector<bool> tileable_blocks(const ModelGraph& graph);

}  // namespace tenon
