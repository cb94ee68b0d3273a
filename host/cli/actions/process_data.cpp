// SPDX-License-Identifier: Apache-2.0
//
// --process-data: opens the datasets of a recipe, so that their caches are built before a run.
#include "host/cli/all_actions.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run/prepared_data.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace tenon {
namespace {

constexpr std::int64_t kMostShown = 1000;

constexpr std::array kProcessDataOptions = {
    Option{"show",
           "N",
           "print the first N samples of data/train as text, with [[ ]] around\n"
           "the text that the run trains on, and { } around special tokens"},
    kRecipeOption,
    kPluginDirOption,
    kSetOption,
    kQuietOption,
    kLogLevelOption,
    kNoVetCacheOption,
    kTrustOption,
    kAllowWritableOption};

void read_process_data(const GivenOptions& given, CommandLine& line) {
  read_recipe_options(given, line);
  if (given.has("show")) {
    line.num_shown = read_whole(
        "show", given.value_of("show"), 1, kMostShown, "a number of samples from 1 to 1000");
  }
}

ExitCode run_process_data(const CommandLine& line, const Invocation& invocation) {
  const UsedRecipe used = use_recipe(line, invocation);
  std::string text;
  for (const ProcessedSet& set : process_data(used.recipe, *used.plugins, line.num_shown)) {
    text += set.samples ? formatted("{}: {} samples\n", set.place, *set.samples)
                        : formatted("{}: opened\n", set.place);
    for (const std::string& sample : set.shown) {
      text += sample;
    }
  }
  print_output(line.is_quiet ? "" : text);
  return ExitCode::kDone;
}

}  // namespace

const Action kProcessDataAction = {
    .verb = "process-data",
    .option = {"process-data",
               "",
               "open the datasets of the recipe, so that their caches are built\n"
               "before a run"},
    .options = kProcessDataOptions,
    .read = read_process_data,
    .run = run_process_data};

}  // namespace tenon
