// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/rank_groups.hpp"

#include "host/error/error.hpp"
#include "host/text/name_pattern.hpp"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

RankGroups::RankGroups(World& world, const Mesh& mesh, c10::Device device, bool has_tables) {
  const std::vector<uint32_t> shard = mesh.ranks_along(MeshDim::kShard);
  const std::vector<uint32_t> replicate = mesh.ranks_along(MeshDim::kReplicate);
  std::vector<uint32_t> all(mesh.world_size());
  std::iota(all.begin(), all.end(), 0);
  gather_ = world.make_group(shard, "gather", device);
  reduce_ = world.make_group(shard, "reduce", device);
  replicate_ = world.make_group(replicate, "replicate", device);
  all_ = world.make_group(all, "all", device);
  if (has_tables) {
    tables_ = world.make_group(all, "tables", at::kCPU);
  }
}

FlowGroups RankGroups::for_flow() {
  return {gather_.get(), reduce_.get(), replicate_.get(), all_.get()};
}

// Offloaded parameters are sharded even on a single rank, so that they are on the device only while
// they are needed.
FlatSharing sharing_of(const ParallelRecipe& recipe, const Mesh& mesh, c10::Device device) {
  const bool is_forced = recipe.offload || recipe.reshard_after_forward == true;
  FlatSharing sharing = sharing_of(mesh, recipe.offload ? 3 : recipe.stage, is_forced);
  if (recipe.offload && !device.is_cpu()) {
    sharing.home = c10::Device(c10::kCPU);
  }
  return sharing;
}

std::vector<bool> unsharded_parameters(const ParallelRecipe& recipe,
                                       const ModelGraph& graph,
                                       std::vector<bool> needs_whole) {
  for (const std::string& pattern : recipe.unsharded) {
    bool is_matched = false;
    std::string names;
    for (const ModelBlock& block : graph.blocks) {
      names += (names.empty() ? "" : ", ") + block.name;
      if (!matches_pattern(pattern, block.name) && !matches_pattern(pattern, block.unit_name())) {
        continue;
      }
      is_matched = true;
      for (const uint32_t p : block.parameters) {
        const uint32_t same_as = graph.parameters[p].same_as;
        needs_whole[same_as == kNoIndex ? p : same_as] = true;
      }
    }
    if (!is_matched) {
      throw Error("distributed.unmatched_block",
                  "/parallel/unsharded: the pattern '" + pattern +
                      "' matches no block; the model has " + names);
    }
  }
  return needs_whole;
}

FlowOptions flow_options(const ParallelRecipe& recipe) {
  FlowOptions options;
  options.reshard_after_forward = recipe.reshard_after_forward;
  options.bucket_bytes = recipe.bucket_bytes;
  if (recipe.gradient_dtype == GradientDtype::kBf16) {
    options.wire_dtype = at::kBFloat16;
  }
  return options;
}

}  // namespace tenon
