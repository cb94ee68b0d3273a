// SPDX-License-Identifier: Apache-2.0
//
// Exports the parameters of a checkpoint to files for other programs: --export. Needs the plugins
// of the checkpoint's frozen recipe, but neither data nor a device.
// Invariant: content is verified against the checkpoint's checksums. A corrupt checkpoint is
// logged, and the checkpoint before it is tried, unless the path names a single checkpoint.
// Threads: [main].
#pragma once

#include "host/plugin/registry.hpp"
#include "host/process/process.hpp"
#include "host/recipe/load_recipe.hpp"
#include "host/train/pretrained/newest_checkpoint.hpp"
#include "host/train/weights/weights_request.hpp"

#include <string>

namespace tenon {

// Writes the files and returns a line that reports them. Uses the recipe in the checkpoint, or the
// recipe of the run folder if the run keeps its checkpoints in another storage.
// Errors  weights.exists, weights.no_layout, weights.bad_layout; weights.mismatch if the
//         checkpoint lacks a parameter; checkpoint.damaged if no checkpoint is valid;
//         storage.not_found; storage.io; errors of the model's plugin
std::string export_weights(const RecipeReading& read_recipe,
                           PluginRegistry& registry,
                           Process& process,
                           const WeightsExport& request,
                           WhichParameters which);

}  // namespace tenon
