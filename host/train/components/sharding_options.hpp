// SPDX-License-Identifier: Apache-2.0
//
// Converts the recipe's "parallel" section to options of the sharded parameters.
// Threads: [main].
#pragma once

#include "host/distributed/ranks/rank_role.hpp"
#include "host/kernels/sequence_parts.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/recipe/recipe.hpp"

#include <c10/core/Device.h>

#include <vector>

namespace tenon {

// Returns the degrees of the mesh.
MeshDegrees mesh_degrees(const ParallelRecipe& recipe);

// Returns how attention sees the positions of other ranks.
ContextBy context_by(const ParallelRecipe& recipe);

// Returns how the parameters of a layout are sharded.
FlatSharing sharing_of(const ParallelRecipe& recipe, const RankRole& role, c10::Device device);

// Returns, by parameter, whether each rank keeps it unsharded. These are the parameters of blocks
// that match a pattern of the recipe, and those in `needs_whole`, whose optimizer requires whole
// parameters. A tied parameter is represented by the parameter it is tied to.
// Errors  distributed.unmatched_block for a pattern that matches no block
std::vector<bool> unsharded_parameters(const ParallelRecipe& recipe,
                                       const ModelGraph& graph,
                                       std::vector<bool> needs_whole);

ShardingOptions sharding_options(const ParallelRecipe& recipe);

}  // namespace tenon
