// SPDX-License-Identifier: Apache-2.0
//
// --process-data: opens the datasets of a recipe, so that their caches are built before a run.
#include "host/cli/action.hpp"
#include "host/cli/print_output.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run/prepared_data.hpp"

#include <array>
#include <string>

namespace tenon {
namespace {

constexpr std::array kOptions = {kRecipeOption,
                                 kPluginDirOption,
                                 kSetOption,
                                 kQuietOption,
                                 kLogLevelOption,
                                 kNoVetCacheOption,
                                 kTrustOption,
                                 kAllowWritableOption};

ExitCode run(const CommandLine& line, const Invocation& invocation) {
  const UsedRecipe used = use_recipe(line, invocation);
  std::string text;
  for (const ProcessedSet& set : process_data(used.recipe, *used.plugins)) {
    text += set.samples ? formatted("{}: {} samples\n", set.place, *set.samples)
                        : formatted("{}: opened\n", set.place);
  }
  print_output(line.is_quiet ? "" : text);
  return ExitCode::kDone;
}

}  // namespace

const Action kProcessDataAction = {
    .option = {"process-data",
               "",
               "open the datasets of the recipe, so that their caches are built\n"
               "before a run"},
    .options = kOptions,
    .read = read_recipe_options,
    .run = run};

}  // namespace tenon
