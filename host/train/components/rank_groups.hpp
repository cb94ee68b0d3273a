// SPDX-License-Identifier: Apache-2.0
//
// Creates the groups of ranks for collectives of parameters, gradients and table rows, and converts
// the recipe's "parallel" section to options. Runs no collective itself.
// Invariant: all ranks create the same groups in the same order.
// Threads: [main].
#pragma once

#include "host/distributed/collectives/world.hpp"
#include "host/distributed/ranks/mesh.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/recipe/recipe.hpp"

#include <c10/core/Device.h>

#include <memory>
#include <vector>

namespace tenon {

class RankGroups {
 public:
  // `has_tables`: also creates a CPU group of all ranks, over which table rows are sharded.
  // Errors  as World::make_group
  RankGroups(World& world, const Mesh& mesh, c10::Device device, bool has_tables);

  FlowGroups for_flow();
  Group* for_tables() { return tables_.get(); }  // null without tables

 private:
  std::unique_ptr<Group> gather_;
  std::unique_ptr<Group> reduce_;
  std::unique_ptr<Group> replicate_;
  std::unique_ptr<Group> all_;
  std::unique_ptr<Group> tables_;
};

// Returns how the parameters of a layout are sharded.
FlatSharing sharing_of(const ParallelRecipe& recipe, const Mesh& mesh, c10::Device device);

// Returns, by parameter, whether each rank keeps it unsharded. These are the parameters of blocks
// that match a pattern of the recipe, and those in `needs_whole`, whose optimizer requires whole
// parameters. A tied parameter is represented by the parameter it is tied to.
// Errors  distributed.unmatched_block for a pattern that matches no block
std::vector<bool> unsharded_parameters(const ParallelRecipe& recipe,
                                       const ModelGraph& graph,
                                       std::vector<bool> needs_whole);

FlowOptions flow_options(const ParallelRecipe& recipe);

}  // namespace tenon
