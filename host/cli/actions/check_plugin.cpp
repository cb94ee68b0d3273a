// SPDX-License-Identifier: Apache-2.0
//
// --check-plugin: checks a plugin as its authors do before they ship it.
#include "host/cli/all_actions.hpp"
#include "host/cli/checked_recipe.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/service_table.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/tools/check/check_report.hpp"
#include "host/tools/check/check_table.hpp"
#include "host/tools/check/run_checks.hpp"

#include <array>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr std::array kCheckPluginOptions = {
    Option{"recipe",
           "FILE",
           "recipe that uses the plugin: its options create the components, and\n"
           "short runs of it are checked too"},
    Option{"only", "NAME", "run one check, or one group of checks"},
    Option{"seed", "N", "seed of the random inputs; default: another one each time"},
    kPluginDirOption,
    kLogLevelOption,
    Option{"json", "", "print JSON"}};

void check_name_of(const std::string& name) {
  if (!find_checks(name).empty()) {
    return;
  }
  std::vector<std::string> names = check_groups();
  for (const Check& check : all_checks()) {
    names.emplace_back(check.name);
  }
  fail_usage("--only: there is no check " + in_quotes(name) +
             hint_of(name, names, "--list-checks lists them"));
}

void read_check_plugin(const GivenOptions& given, CommandLine& line) {
  read_plugin_options(given, line);
  line.recipe = given.value_of("recipe");
  line.checked_plugin = given.value_of("check-plugin");
  line.check_name = given.value_of("only");
  check_name_of(line.check_name);
  line.check_seed =
      given.has("seed")
          ? static_cast<std::uint64_t>(read_whole("seed",
                                                  given.value_of("seed"),
                                                  0,
                                                  std::numeric_limits<std::int64_t>::max(),
                                                  "a whole number of at least 0"))
          : std::random_device()();
}

// The plugin's own folder, and those of the other plugins.
std::vector<PluginFolder> check_folders(const CommandLine& line) {
  const std::filesystem::path folder = std::filesystem::path(line.checked_plugin).parent_path();
  std::vector<PluginFolder> folders = {{folder.empty() ? "." : folder.string(), "--check-plugin"}};
  for (PluginFolder& other : plugin_folders_of(line)) {
    folders.push_back(std::move(other));
  }
  return folders;
}

ExitCode run_check_plugin(const CommandLine& line, const Invocation& /*invocation*/) {
  std::error_code ignored;
  if (!std::filesystem::exists(line.checked_plugin, ignored)) {
    fail_usage("--check-plugin: there is no file " + in_quotes(line.checked_plugin));
  }
  CheckRequest request{.file = line.checked_plugin,
                       .recipe = line.recipe,
                       .seed = line.check_seed,
                       .folders = check_folders(line),
                       .services = make_service_table(),
                       .program = own_program(),
                       .load_limit = vet_timeout_from_environment()};
  if (!line.recipe.empty()) {
    request.load_recipe = [path = line.recipe](PluginRegistry& registry) {
      return check_recipe(read_recipe({.path = path, .compute_threads = 1}), registry);
    };
  }
  const PluginInfo info = inspect_plugin(line.checked_plugin);
  const std::vector<const Check*> checks = find_checks(line.check_name);
  const CheckedRule* previous = nullptr;
  if (!line.is_json) {
    print_output(report_start(request, info, checks.size()));
  }
  CheckedRule last{};
  const std::vector<CheckedRule> rules =
      run_checks(request, info, checks, [&](const CheckedRule& rule) {
        if (!line.is_json) {
          print_output(report_lines(rule, previous));
          last = rule;
          previous = &last;
        }
      });
  print_output(line.is_json ? report_json(request, info, rules) : report_end(rules));
  return count_of(rules, CheckOutcome::kFailed) > 0 ? ExitCode::kPlugin : ExitCode::kDone;
}

}  // namespace

const Action kCheckPluginAction = {
    .verb = "check-plugin",
    .option = {"check-plugin",
               "FILE",
               "for plugin authors: check a plugin before it is shipped; each check\n"
               "that runs its code has its own process. Exit status 4 if one fails"},
    .options = kCheckPluginOptions,
    .read = read_check_plugin,
    .run = run_check_plugin};

}  // namespace tenon
