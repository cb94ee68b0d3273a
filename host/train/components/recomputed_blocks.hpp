// SPDX-License-Identifier: Apache-2.0
//
// The blocks whose forward is repeated in backward, as `train.recompute` names them.
// Threads: any.
#pragma once

#include "host/model/graph.hpp"

#include <string>
#include <vector>

namespace tenon {

// Returns by block whether it is recomputed. `recompute` is "none", "blocks", "selective", or name
// patterns: a pattern matches the name of a unit, or of a block.
// Errors  model.unmatched_recompute for a pattern that matches nothing
std::vector<bool> recomputed_blocks(const std::vector<std::string>& recompute,
                                    const ModelGraph& graph);

// Whether recomputed blocks keep results of attention.
bool keeps_attention(const std::vector<std::string>& recompute);

}  // namespace tenon
