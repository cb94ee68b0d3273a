// SPDX-License-Identifier: Apache-2.0
#include "host/cli/recipe_options.hpp"

#include "host/error/error.hpp"
#include "host/terminal/usage_error.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace tenon {
namespace {

LogLevel read_log_level(const std::string& text) {
  std::vector<std::string> names;
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    names.emplace_back(log_level_name(level));
    if (names.back() == text) {
      return level;
    }
  }
  fail_word("log-level", text, names);
}

// Sets the device as a value of the recipe, so that the frozen recipe contains it.
std::string device_setting(const std::string& name) {
  const bool is_known = name == "auto" || name == "cpu" || name == "cuda";
  const bool is_numbered = name.starts_with("cuda:") && name.size() > 5 &&
                           name.find_first_not_of("0123456789", 5) == std::string::npos;
  if (!is_known && !is_numbered) {
    fail_value("device", name, "cpu, cuda, cuda:N or auto");
  }
  return "device=" + in_quotes(name);
}

// Returns the recipe of the run that a command line names: that of --run-dir, else of --resume; ""
// if there is none.
std::string recipe_of_run(const CommandLine& line) {
  for (const std::string& run : {line.run_dir, line.resume.path}) {
    std::error_code ignored;
    const std::string file = run + "/recipe.json";
    if (!run.empty() && std::filesystem::is_regular_file(file, ignored)) {
      return file;
    }
  }
  return "";
}

}  // namespace

WhichParameters read_which(const GivenOptions& given) {
  const std::string word = given.value_of("which");
  if (word.empty()) {
    return WhichParameters::kAuto;
  }
  if (word != "best" && word != "last") {
    fail_word("which", word, {"best", "last"});
  }
  return word == "best" ? WhichParameters::kBest : WhichParameters::kLast;
}

void read_plugin_options(const GivenOptions& given, CommandLine& line) {
  line.plugin_dirs = given.values_of("plugin-dir");
  line.use_vet_cache = !given.has("no-vet-cache");
  line.trust = given.value_of("trust");
  line.allows_writable_plugins = given.has("allow-writable-plugins");
  line.is_quiet = given.has("quiet");
  line.is_json = given.has("json");
  if (given.has("log-level")) {
    line.log_level = read_log_level(given.value_of("log-level"));
  }
}

void read_recipe_options(const GivenOptions& given, CommandLine& line) {
  read_plugin_options(given, line);
  line.recipe = given.value_of("recipe");
  line.sets = given.values_of("set");
  if (given.has("device")) {
    line.sets.push_back(device_setting(given.value_of("device")));
  }
  if (line.recipe.empty()) {
    line.recipe = recipe_of_run(line);
    line.is_recipe_of_run = !line.recipe.empty();
  }
  if (line.recipe.empty()) {
    throw Error("usage.missing_recipe", "no recipe is given; name one: --recipe FILE");
  }
}

}  // namespace tenon
