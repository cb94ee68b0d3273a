// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/saved_activations.hpp"

#include "host/error/error.hpp"
#include "host/kernels/fused.hpp"
#include "host/model/block_tiles.hpp"
#include "host/train/components/recomputed_blocks.hpp"

#include <algorithm>

namespace tenon {
namespace {

[[noreturn]] void contradict(const std::string& text) {
  throw Error("recipe.contradiction", text);
}

void check_offload(const TrainRecipe& train, bool has_light_blocks, const ExecBase& exec) {
  if (!train.offload_folder.empty() && train.offload_activations != ActivationOffload::kDisk) {
    contradict(
        "/train/offload_folder: the folder has no use; set offload_activations to \"disk\", or "
        "remove the key");
  }
  if (train.offload_activations == ActivationOffload::kNone) {
    return;
  }
  if (train.offload_activations == ActivationOffload::kHost && exec.device.is_cpu()) {
    contradict(
        "/train/offload_activations: \"host\" moves activations from a GPU to the host's memory, "
        "and this run computes in that memory; set \"disk\" or null");
  }
  if (!has_light_blocks) {
    contradict(
        "/train/offload_activations: only inputs of blocks that run again in backward are moved, "
        "and no block does; set recompute, such as \"blocks\", or tile");
  }
}

}  // namespace

bool can_keep_attention(const ExecBase& exec) {
  return !exec.autocast_dtype.has_value() && is_fused("attention", exec.compute_dtype, exec.device);
}

void check_activations(const TrainRecipe& train,
                       const ModelGraph& graph,
                       const std::vector<bool>& recomputed,
                       const ExecBase& exec) {
  if (keeps_attention(train.recompute) && !can_keep_attention(exec)) {
    contradict(
        "/train/recompute: \"selective\" keeps results of the host's attention kernel, which this "
        "run does not use (it computes in fp32 on a CPU, and `kernels` must not exclude it); set "
        "\"blocks\"");
  }
  const std::vector<bool> tileable = tileable_blocks(graph);
  const bool can_tile = std::ranges::find(tileable, true) != tileable.end();
  if (train.tile.has_value() && !can_tile) {
    throw Error("model.cannot_tile",
                "/train/tile: no block of the model can run on a part of a sequence (blocks must "
                "be flagged TENON_BLOCK_TOKENWISE, their values need an axis T, and their forward "
                "must be repeatable); set it to null");
  }
  const bool recomputes = std::ranges::find(recomputed, true) != recomputed.end();
  check_offload(train, recomputes || train.tile.has_value(), exec);
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
