// SPDX-License-Identifier: Apache-2.0
//
// Training, the default action of a command line.
#include "host/cli/all_actions.hpp"
#include "host/cli/launch_options.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/run_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/terminal/usage_error.hpp"

#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

namespace tenon {
namespace {

constexpr std::array kTrainOptions = {
    kRecipeOption,
    kPluginDirOption,
    kSetOption,
    kDeviceOption,
    kRunDirOption,
    kResumeOption,
    kLaunchOption,
    kBindOption,
    kMaxRestartsOption,
    kMinRanksOption,
    kQuietOption,
    kLogLevelOption,
    Option{"profile",
           "steps=A..B",
           "record events, blocks and operators of steps A to B in the run's\n"
           "profile.json, for Perfetto or chrome://tracing"},
    kImportTablesOption,
    Option{"export-tables",
           "DIR",
           "at the end, write the ids and vectors of all tables to Parquet files\n"
           "in DIR"},
    Option{"export-slots", "", "with --export-tables: add optimizer state, counts and last steps"},
    Option{"import",
           "hf DIR",
           "create the run folder --run-dir with a checkpoint of the weights in\n"
           "DIR, and stop; the same command without --import then trains"},
    kNoVetCacheOption,
    kTrustOption,
    kAllowWritableOption,
    kCheckPluginsOption,
};

// Reads "steps=20..25".
StepRange read_profile(const std::string& text) {
  const auto refuse = [&text] { fail_value("profile", text, "steps=A..B, as in steps=20..25"); };
  constexpr std::string_view kKey = "steps=";
  const std::size_t dots = text.find("..");
  if (!text.starts_with(kKey) || dots == std::string::npos) {
    refuse();
  }
  const auto number = [&](std::size_t begin, std::size_t end) {
    std::uint64_t value = 0;
    const char* const last = text.data() + end;
    const auto [stop, failed] = std::from_chars(text.data() + begin, last, value);
    if (failed != std::errc() || stop != last) {
      refuse();
    }
    return value;
  };
  const StepRange steps{.first = number(kKey.size(), dots), .last = number(dots + 2, text.size())};
  if (steps.first == 0) {
    fail_usage("--profile is " + in_quotes(text) + "; the first step is 1");
  }
  if (steps.first > steps.last) {
    fail_usage("--profile is " + in_quotes(text) + "; its first step comes after its last");
  }
  return steps;
}

void read_import(const GivenOptions& given, CommandLine& line) {
  const std::vector<std::string> values = given.values_of("import");
  if (values.front() != "hf") {
    fail_value("import", values.front(), "hf");
  }
  line.weights_import = {.format = values.front(), .from = values.back()};
  if (line.run_dir.empty()) {
    fail_usage("--import needs the folder of the new run: --run-dir DIR");
  }
  if (given.has("resume")) {
    fail_usage("--resume and --import contradict each other: an import starts a new run");
  }
  line.resume = {};
}

void read_train(const GivenOptions& given, CommandLine& line) {
  read_run_options(given, line);
  if (!given.has("resume") && !line.run_dir.empty()) {
    line.resume.from = ResumeFrom::kAuto;  // so that the same command resumes its run
  }
  read_launch_options(given, line);
  read_restart_options(given, line);
  if (given.has("profile")) {
    line.profile = read_profile(given.value_of("profile"));
  }
  line.tables.export_to = given.value_of("export-tables");
  line.tables.has_slots = given.has("export-slots");
  if (line.tables.has_slots && line.tables.export_to.empty()) {
    fail_usage("--export-slots has no effect without --export-tables DIR");
  }
  if (given.has("import")) {
    read_import(given, line);
  }
  read_recipe_options(given, line);
}

}  // namespace

const Action kTrainAction = {.verb = "train",
                             .option = {},
                             .options = kTrainOptions,
                             .processes = Processes::kOfRanks,
                             .read = read_train,
                             .run = run_recipe};

}  // namespace tenon
