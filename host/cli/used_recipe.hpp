// SPDX-License-Identifier: Apache-2.0
//
// Reads and checks the recipe of an action, loads its plugins, and runs the recipe.
// Threads: [main].
#pragma once

#include "host/cli/all_actions.hpp"
#include "host/cli/command_line.hpp"
#include "host/plugin/registry.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/run/run_training.hpp"

#include <memory>

namespace tenon {

struct UsedRecipe {
  std::unique_ptr<PluginRegistry> plugins;
  Recipe recipe;
};

// Reads --recipe with --set, loads its plugins and checks it. If this process is one of several
// ranks that train, reports an error to all ranks.
//
// Errors   recipe.*, plugin.*
UsedRecipe use_recipe(const CommandLine& line, const Invocation& invocation);

// Trains or evaluates the recipe, here or on ranks that this process starts.
ExitCode run_recipe(const CommandLine& line, const Invocation& invocation);

}  // namespace tenon
