// SPDX-License-Identifier: Apache-2.0
//
// The recipe of an action, checked, with the plugins that it names; and a run of that recipe.
// Threads: [main].
#pragma once

#include "host/cli/action.hpp"
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
// ranks that train, all ranks learn of an error.
//
// Errors   recipe.*, plugin.*
UsedRecipe use_recipe(const CommandLine& line, const Invocation& invocation);

// Trains or evaluates the recipe, here or on ranks that this process starts.
ExitCode run_recipe(const CommandLine& line, const Invocation& invocation);

}  // namespace tenon
