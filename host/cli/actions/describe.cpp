// SPDX-License-Identifier: Apache-2.0
//
// --describe: prints the options of a component, or the keys of a recipe.
#include "host/cli/all_actions.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/plugin/kinds.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/joined.hpp"
#include "host/tools/docs/describe_component.hpp"
#include "host/tools/docs/option_markdown.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

constexpr std::array kDescribeOptions = {
    kPluginDirOption,
    kLogLevelOption,
    kNoVetCacheOption,
    kTrustOption,
    kAllowWritableOption,
    Option{"json", "", "print JSON"},
    Option{"markdown", "", "print the options as a Markdown table"}};

// Reads "recipe" or "recipe:train,eval", keys of the recipe. Returns false for any other text.
bool read_recipe_keys(const std::string& text, CommandLine& line) {
  constexpr std::string_view kRecipe = "recipe";
  if (!text.starts_with(kRecipe) || (text.size() > kRecipe.size() && text[kRecipe.size()] != ':')) {
    return false;
  }
  if (!line.is_markdown) {
    fail_usage("--describe " + text +
               " goes with --markdown; --print-schema prints the recipe's keys as a JSON Schema");
  }
  std::istringstream keys(text.substr(std::min(text.size(), kRecipe.size() + 1)));
  for (std::string key; std::getline(keys, key, ',');) {
    line.describe_keys.push_back(key);
  }
  return true;
}

void check_kind(const std::string& kind) {
  if (find_kind(kind) != nullptr) {
    return;
  }
  std::vector<std::string> kinds;
  for (const KindEntry& entry : all_kinds()) {
    kinds.emplace_back(entry.kind);
  }
  fail_usage("--describe: there is no kind " + in_quotes(kind) +
             hint_of(kind, kinds, "kinds are " + joined(kinds)));
}

void read_describe(const GivenOptions& given, CommandLine& line) {
  read_plugin_options(given, line);
  line.is_markdown = given.has("markdown");
  if (line.is_json && line.is_markdown) {
    fail_usage("--json and --markdown contradict each other; give one of them");
  }
  const std::string text = given.value_of("describe");
  if (read_recipe_keys(text, line)) {
    return;
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos && find_kind(text) != nullptr) {
    line.describe_kind = text;  // lists its types
    return;
  }
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    fail_value("describe", text, "KIND:TYPE, as in loss:mse");
  }
  line.describe_kind = text.substr(0, colon);
  line.describe_type = text.substr(colon + 1);
  check_kind(line.describe_kind);
}

ExitCode run_describe(const CommandLine& line, const Invocation& /*invocation*/) {
  if (line.describe_kind.empty()) {
    print_output(recipe_markdown(line.describe_keys));
    return ExitCode::kDone;
  }
  PluginRegistry registry(plugin_setup(line, Vetting::kOnDemand));
  if (line.describe_type.empty()) {
    const std::vector<std::string> types = registry.types_of(line.describe_kind);
    fail_usage("--describe " + line.describe_kind + " needs a type: " +
               (types.empty() ? "no plugin has one in " + registry.describe_folders()
                              : "one of " + joined(types)) +
               "; as in --describe " + line.describe_kind + ":" +
               (types.empty() ? "TYPE" : types.front()));
  }
  const LoadedComponent& component = warning_of_refused(registry, [&]() -> const LoadedComponent& {
    return component_to_describe(registry, line.describe_kind, line.describe_type);
  });
  print_output(line.is_json       ? component_json(component)
               : line.is_markdown ? component_markdown(component)
                                  : component_text(component));
  return ExitCode::kDone;
}

}  // namespace

const Action kDescribeAction = {
    .verb = "describe",
    .option = {"describe",
               "KIND:TYPE",
               "print what a component does and which options it takes, as in\n"
               "loss:cross_entropy. With --markdown also keys of the recipe:\n"
               "recipe, or recipe:train,eval"},
    .options = kDescribeOptions,
    .read = read_describe,
    .run = run_describe};

}  // namespace tenon
