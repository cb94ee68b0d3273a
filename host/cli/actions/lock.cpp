// SPDX-License-Identifier: Apache-2.0
//
// --lock: writes the plugins of a recipe to the file plugins.lock beside it.
#include "host/cli/all_actions.hpp"
#include "host/cli/recipe_lock.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/terminal/print_output.hpp"

namespace tenon {
namespace {

ExitCode run_lock(const CommandLine& line, const Invocation& invocation) {
  print_output(write_lock(use_recipe(line, invocation).recipe));
  return ExitCode::kDone;
}

}  // namespace

const Action kLockAction = {
    .verb = "lock",
    .option = {"lock",
               "",
               "check the recipe and write id, version and SHA-256 of its plugins to\n"
               "plugins.lock beside it; later runs report other files"},
    .options = kRecipeOptions,
    .read = read_recipe_options,
    .run = run_lock};

}  // namespace tenon
