// SPDX-License-Identifier: Apache-2.0
//
// --list-plugins: prints the contents of the plugin folders.
#include "host/cli/all_actions.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/terminal/print_output.hpp"
#include "host/tools/inspect/plugin_list.hpp"

#include <array>

namespace tenon {
namespace {

constexpr std::array kListPluginsOptions = {kPluginDirOption,
                                            kLogLevelOption,
                                            kTrustOption,
                                            kAllowWritableOption,
                                            Option{"json", "", "print JSON"}};

ExitCode run_list_plugins(const CommandLine& line, const Invocation& /*invocation*/) {
  const std::vector<PluginFolder> folders = plugin_folders_of(line);
  const std::vector<PluginInfo> plugins = scan_plugins(folders, scan_rules(line));
  print_output(line.is_json ? plugin_list_json(plugins) : plugin_table(plugins, folders));
  return ExitCode::kDone;
}

}  // namespace

const Action kListPluginsAction = {
    .verb = "list-plugins",
    .option = {"list-plugins", "", "print the contents of the plugin folders; loads no plugin"},
    .options = kListPluginsOptions,
    .read = read_plugin_options,
    .run = run_list_plugins};

}  // namespace tenon
