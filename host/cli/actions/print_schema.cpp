// SPDX-License-Identifier: Apache-2.0
//
// --print-schema: prints the JSON Schema of recipes, for editors.
#include "host/cli/all_actions.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/docs/editor_schema.hpp"

#include <array>

namespace tenon {
namespace {

constexpr std::array kPrintSchemaOptions = {
    kPluginDirOption, kLogLevelOption, kNoVetCacheOption, kTrustOption, kAllowWritableOption};

ExitCode run_print_schema(const CommandLine& line, const Invocation& /*invocation*/) {
  PluginRegistry registry(plugin_setup(line, Vetting::kEarly));
  registry.warn_of_refused();
  print_output(editor_schema_text(offered_components(registry)));
  return ExitCode::kDone;
}

}  // namespace

const Action kPrintSchemaAction = {
    .verb = "print-schema",
    .option = {"print-schema",
               "",
               "print a JSON Schema of recipes with these plugins, for editors"},
    .options = kPrintSchemaOptions,
    .read = read_plugin_options,
    .run = run_print_schema};

}  // namespace tenon
