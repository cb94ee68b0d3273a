// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a checkpoint to files that other programs read: --export. Neither data nor a
// device is needed, but the plugins of the recipe that is frozen in the checkpoint are.
// Invariant: what is read is held against the checkpoint's checksums.
// Threads: [main].
#pragma once

#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/weights_request.hpp"

#include <string>

namespace tenon {

// The file of the recipe that belongs to the checkpoint that is asked for: the one in it, or that
// of the run's folder where checkpoints are kept elsewhere.
// Errors  storage.not_found
std::string recipe_of_export(const WeightsExport& request);

// Writes the files, and returns a line that says so.
// Errors  weights.exists, weights.no_layout, weights.bad_layout; weights.mismatch where the
//         checkpoint lacks a parameter; checkpoint.damaged; storage.io; what the model's plugin
//         refuses
std::string export_weights(const Recipe& recipe,
                           PluginRegistry& registry,
                           const WeightsExport& request);

}  // namespace tenon
