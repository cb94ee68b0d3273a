// SPDX-License-Identifier: Apache-2.0
//
// Selects the storage of a run's checkpoints: the run folder, or the storage in the recipe.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/checkpoint/named_checkpoint.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"

#include <memory>
#include <optional>
#include <string>

namespace tenon {

// Returns the location of `what` in a storage plugin: the name of the run folder and `what`, as in
// "mlp-7/checkpoints". Different spellings of the folder's path give the same result.
std::string storage_location(const std::string& run_dir, const std::string& what);

// Returns the storage for `what`: "checkpoints", "exports/hf". Local files are in `run_dir`/`what`.
// A plugin receives the storage_location, so that runs with different names never share a location.
//
// Errors   plugin.*, storage.io, storage.not_found if the plugin cannot connect
// Threads  [main]; the factory must outlive the result
std::unique_ptr<CheckpointStore> make_checkpoint_storage(ComponentFactory& factory,
                                                         const std::optional<ComponentUse>& use,
                                                         const std::string& run_dir,
                                                         const std::string& what);

// Returns the checkpoints that a path names in local files, as in named_checkpoint.hpp. If there
// are none, searches the storage `use`. The path is then a run folder or RUN/checkpoints/NAME, and
// need not exist.
//
// Errors   storage.not_found; those of make_checkpoint_storage
// Threads  [main]; the factory must outlive the result
NamedCheckpoints find_checkpoints(ComponentFactory& factory,
                                  const std::optional<ComponentUse>& use,
                                  const std::string& path);

}  // namespace tenon
