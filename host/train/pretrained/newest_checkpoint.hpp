// SPDX-License-Identifier: Apache-2.0
//
// The newest valid checkpoint that a path names, with the recipe that wrote it, for actions that
// read a checkpoint without a run.
// Invariant: a corrupt checkpoint is logged, and the checkpoint before it is tried, unless the path
// names a single checkpoint.
// Threads: [main].
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/error/error.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/resume/resume_candidates.hpp"

#include <exception>
#include <functional>
#include <string>

namespace tenon {

// Thrown by from_checkpoint() if a checkpoint is corrupt.
struct CorruptCheckpoint {
  Error why;
};

// Calls `read`, which reads nothing but a checkpoint; throws CorruptCheckpoint if it is corrupt.
template <class Read>
auto from_checkpoint(Read read) {
  try {
    return read();
  } catch (const std::exception& error) {
    if (const auto failure = checkpoint_failure(error, CheckpointPart::kState)) {
      throw CorruptCheckpoint{*failure};
    }
    throw;
  }
}

// Reads and checks the recipe in a file.
using RecipeReading = std::function<Recipe(const std::string& file)>;

// Uses a checkpoint, with the recipe that wrote it. Reads of the checkpoint are in
// from_checkpoint().
using CheckpointReading =
    std::function<std::string(const CheckpointReader& reader, const Recipe& recipe)>;

// Calls `use` with the newest valid checkpoint of `path`, a run folder or a checkpoint, and returns
// its result. The recipe is the one in the checkpoint, or that of the run folder if the run keeps
// its checkpoints in another storage.
// Errors  checkpoint.damaged if no checkpoint is valid; storage.not_found; storage.io; those of
//         `read_recipe` and `use`
std::string with_newest_checkpoint(const std::string& path,
                                   const RecipeReading& read_recipe,
                                   PluginRegistry& registry,
                                   const CheckpointReading& use);

}  // namespace tenon
