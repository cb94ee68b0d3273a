// SPDX-License-Identifier: Apache-2.0
//
// Where a run keeps its checkpoints: its folder, or what the recipe names.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/checkpoint/named_checkpoint.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"

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
std::unique_ptr<CheckpointStore> make_checkpoint_storage(ComponentFactory& factory,
                                                         const std::optional<ComponentUse>& use,
                                                         const std::string& run_dir,
                                                         const std::string& what);

// The checkpoints that a path names: those in local files, as named_checkpoint.hpp says, or where
// there are none, what the storage `use` keeps of a run. The path is then that of the run's folder,
// or RUN/checkpoints/NAME; neither need be there.
//
// Errors   storage.not_found; those of make_checkpoint_storage
// Threads  [main]; the factory must outlive the result
NamedCheckpoints find_checkpoints(ComponentFactory& factory,
                                  const std::optional<ComponentUse>& use,
                                  const std::string& path);

}  // namespace tenon
