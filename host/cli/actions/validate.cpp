// SPDX-License-Identifier: Apache-2.0
//
// --validate: checks a recipe without running it.
#include "host/cli/all_actions.hpp"
#include "host/cli/launch_options.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/device/gpu_files.hpp"
#include "host/terminal/print_output.hpp"

#include <array>

namespace tenon {
namespace {

constexpr std::array kValidateOptions = {kRecipeOption,
                                         kPluginDirOption,
                                         kSetOption,
                                         kDeviceOption,
                                         kLaunchOption,
                                         kQuietOption,
                                         kLogLevelOption,
                                         kNoVetCacheOption,
                                         kTrustOption,
                                         kAllowWritableOption};

void read_validate(const GivenOptions& given, CommandLine& line) {
  read_launch_options(given, line);
  read_recipe_options(given, line);
}

ExitCode run_validate(const CommandLine& line, const Invocation& invocation) {
  const UsedRecipe used = use_recipe(line, invocation);
  if (line.num_ranks > 0) {
    check_number_of_ranks(used.recipe, line.num_ranks);
  }
  check_training(used.recipe,
                 *used.plugins,
                 invocation.process,
                 gpu_files_of(own_program()),
                 invocation.ranks);
  print_output(line.is_quiet ? "" : line.recipe + " is valid\n");
  return ExitCode::kDone;
}

}  // namespace

const Action kValidateAction = {
    .verb = "validate",
    .option = {"validate", "", "check the recipe and the options of all its components"},
    .options = kValidateOptions,
    .processes = Processes::kOfRanks,
    .read = read_validate,
    .run = run_validate};

}  // namespace tenon
