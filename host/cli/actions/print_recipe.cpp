// SPDX-License-Identifier: Apache-2.0
//
// --print-recipe: prints a recipe with all its defaults.
#include "host/cli/all_actions.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/terminal/print_output.hpp"

namespace tenon {
namespace {

ExitCode run_print_recipe(const CommandLine& line, const Invocation& invocation) {
  // A recipe for later use, with what is typed into it. Variables are not expanded.
  print_exactly(frozen_recipe(use_recipe(line, invocation).recipe));
  return ExitCode::kDone;
}

}  // namespace

const Action kPrintRecipeAction = {
    .verb = "print-recipe",
    .option = {"print-recipe", "", "check the recipe and print it with all its defaults"},
    .options = kRecipeOptions,
    .read = read_recipe_options,
    .run = run_print_recipe};

}  // namespace tenon
