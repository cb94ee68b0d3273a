// SPDX-License-Identifier: Apache-2.0
//
// The groups of ranks that a run's parameters and gradients move in, and what of the recipe says
// how. Nothing is moved here.
// Invariant: all ranks make the same groups in the same order.
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
  // Errors  as World::make_group
  // `has_tables`: rows of tables are sharded over all ranks, on the CPU.
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

// How the parameters of a layout are sharded.
FlatSharing sharing_of(const ParallelRecipe& recipe, const Mesh& mesh, c10::Device device);

// Which parameters each rank keeps whole: those in blocks that a pattern of the recipe names, and
// those that `needs_whole` has, whose optimizer wants them so. By parameter; of a tied one, that of
// what it is.
// Errors  distributed.unmatched_block: a pattern that matches no block has no effect
std::vector<bool> unsharded_parameters(const ParallelRecipe& recipe,
                                       const ModelGraph& graph,
                                       std::vector<bool> needs_whole);

FlowOptions flow_options(const ParallelRecipe& recipe);

}  // namespace tenon
