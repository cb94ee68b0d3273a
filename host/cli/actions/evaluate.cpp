// SPDX-License-Identifier: Apache-2.0
//
// --eval-only: evaluates without training.
#include "host/cli/all_actions.hpp"
#include "host/cli/launch_options.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/run_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/terminal/usage_error.hpp"

#include <array>

namespace tenon {
namespace {

constexpr std::array kEvaluateOptions = {kRecipeOption,
                                         kPluginDirOption,
                                         kSetOption,
                                         kDeviceOption,
                                         kRunDirOption,
                                         kResumeOption,
                                         kWhichOption,
                                         kLaunchOption,
                                         kBindOption,
                                         kQuietOption,
                                         kLogLevelOption,
                                         kImportTablesOption,
                                         kNoVetCacheOption,
                                         kTrustOption,
                                         kAllowWritableOption,
                                         kCheckPluginsOption};

void read_evaluate(const GivenOptions& given, CommandLine& line) {
  read_run_options(given, line);
  line.which = read_which(given);
  if (line.which != WhichParameters::kAuto && line.resume.from == ResumeFrom::kNone) {
    fail_usage("--which has no effect without --resume: the initial parameters are evaluated");
  }
  read_launch_options(given, line);
  read_recipe_options(given, line);
}

}  // namespace

const Action kEvaluateAction = {
    .verb = "evaluate",
    .option = {"eval-only",
               "",
               "evaluate the recipe's evaluation and test sets once and stop; uses the\n"
               "initial parameters unless --resume names a run or a checkpoint"},
    .options = kEvaluateOptions,
    .processes = Processes::kOfRanks,
    .read = read_evaluate,
    .run = run_recipe};

}  // namespace tenon
