// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a checkpoint to files that other programs read: --export. Neither data nor a
// device is needed, but the plugins of the recipe that is frozen in the checkpoint are.
// Invariant: what is read is verified against the checkpoint's checksums; a corrupt one is
// reported, and the one before it is taken, unless one alone was named.
// Threads: [main].
#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/weights/weights_request.hpp"

#include <functional>
#include <string>

namespace tenon {

// Reads and checks the recipe in a file.
using RecipeReading = std::function<Recipe(const std::string& file)>;

// Writes the files, and returns a line that says so. The recipe is the one in the checkpoint, or
// that of the run's folder where checkpoints are kept elsewhere.
// Errors  weights.exists, weights.no_layout, weights.bad_layout; weights.mismatch if the
//         checkpoint lacks a parameter; checkpoint.damaged if none is sound;
//         storage.not_found; storage.io; what the model's plugin refuses
std::string export_weights(const RecipeReading& read_recipe,
                           PluginRegistry& registry,
                           const WeightsExport& request);

}  // namespace tenon
