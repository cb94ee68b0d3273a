// SPDX-License-Identifier: Apache-2.0
//
// Where a run keeps its checkpoints: its folder, or what the recipe names.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/component_factory.hpp"

#include <memory>
#include <optional>
#include <string>

namespace tenon {

// What a storage other than local files is told of where to keep `what` of a run: the folder's own
// name and `what`, "mlp-7/checkpoints", however its path is written.
std::string storage_place(const std::string& run_dir, const std::string& what);

// `what` is kept: "checkpoints", "exports/hf". Local files are in `run_dir`/`what`; a plugin is
// told their storage_place, so that runs with different names do not meet.
//
// Errors   plugin.*, storage.io, storage.not_found where the plugin cannot connect
// Threads  [main]; the factory must outlive the result
std::unique_ptr<BundleStorage> make_checkpoint_storage(ComponentFactory& factory,
                                                       const std::optional<ComponentUse>& use,
                                                       const std::string& run_dir,
                                                       const std::string& what);

}  // namespace tenon
