// SPDX-License-Identifier: Apache-2.0
//
// How a run saves memory of activations: selective recompute, tiles, offload. Recomputed blocks are
// in recomputed_blocks.hpp.
// Threads: [main].
#pragma once

#include "host/model/activation_store.hpp"
#include "host/model/graph.hpp"
#include "host/recipe/train_recipe.hpp"
#include "host/tensor/exec_frame.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace tenon {

// Whether "selective" has an effect: the host's attention kernel computes in this precision, on
// this device.
bool can_keep_attention(const ExecBase& exec);

// Errors  model.cannot_tile if the recipe asks for tiles, and no block can run on one
void check_tiles(const TrainRecipe& train, const ModelGraph& graph);

// Returns where units move their activations between forward and backward; null: nowhere.
//
// Errors  model.offload_failed
std::unique_ptr<ActivationStore> activation_store(const TrainRecipe& train,
                                                  const std::filesystem::path& run_folder);

}  // namespace tenon
