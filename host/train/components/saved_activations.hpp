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

// Refuses settings that have no effect, or cannot work.
//
// Errors  recipe.contradiction; model.cannot_tile
void check_activations(const TrainRecipe& train,
                       const ModelGraph& graph,
                       const std::vector<bool>& recomputed,
                       const ExecBase& exec);

// Returns where units move their activations between forward and backward; null: nowhere.
//
// Errors  model.offload_failed
std::unique_ptr<ActivationStore> activation_store(const TrainRecipe& train,
                                                  const std::filesystem::path& run_folder);

}  // namespace tenon
