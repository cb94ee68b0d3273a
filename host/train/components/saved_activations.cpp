// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/saved_activations.hpp"

#include "host/error/error.hpp"
#include "host/kernels/fused.hpp"
#include "host/model/block_tiles.hpp"

#include <algorithm>

namespace tenon {
bool can_keep_attention(const ExecBase& exec) {
  return !exec.autocast_dtype.has_value() && is_fused("attention", exec.compute_dtype, exec.device);
}

void check_tiles(const TrainRecipe& train, const ModelGraph& graph) {
  const std::vector<bool> tileable = tileable_blocks(graph);
  const bool can_tile = std::ranges::find(tileable, true) != tileable.end();
  if (train.tile.has_value() && !can_tile) {
    throw Error("model.cannot_tile",
                "/train/tile: no block of the model can run on a part of a sequence (blocks must "
                "be flagged TENON_BLOCK_TOKENWISE, their values need an axis T, and their forward "
                "must be repeatable); set it to null");
  }
}

std::unique_ptr<ActivationStore> activation_store(const TrainRecipe& train,
                                                  const std::filesystem::path& run_folder) {
  switch (train.offload_activations) {
    case ActivationOffload::kNone:
      break;
    case ActivationOffload::kHost:
      return host_activations();
    case ActivationOffload::kDisk:
      return disk_activations(train.offload_folder.empty() ? run_folder.string()
                                                           : train.offload_folder);
  }
  return nullptr;
}

}  // namespace tenon
