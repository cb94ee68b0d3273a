// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/sharding_options.hpp"

#include "host/error/error.hpp"
#include "host/text/name_pattern.hpp"

#include <string>
#include <vector>

namespace tenon {

MeshDegrees mesh_degrees(const ParallelRecipe& recipe) {
  return {.replicate = recipe.replicate,
          .shard = recipe.shard,
          .tensor = recipe.tensor,
          .context = recipe.context,
          .pipeline = recipe.pipeline};
}

ContextBy context_by(const ParallelRecipe& recipe) {
  return recipe.context_by == ContextExchange::kUlysses ? ContextBy::kHeads : ContextBy::kKeys;
}

// Offloaded parameters are sharded even on a single rank, so that they are on the device only while
// they are needed.
FlatSharing sharing_of(const ParallelRecipe& recipe, const RankRole& role, c10::Device device) {
  FlatSharing sharing = sharing_of({.stage = recipe.stage,
                                    .offloads = recipe.offload,
                                    .reshard_after_forward = recipe.reshard_after_forward},
                                   role);
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

ShardingOptions sharding_options(const ParallelRecipe& recipe) {
  ShardingOptions options;
  options.reshard_after_forward = recipe.reshard_after_forward;
  options.bucket_bytes = recipe.bucket_bytes;
  if (recipe.gradient_dtype == GradientDtype::kBf16) {
    options.wire_dtype = at::kBFloat16;
  }
  return options;
}

}  // namespace tenon
