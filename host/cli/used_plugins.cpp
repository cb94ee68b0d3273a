// SPDX-License-Identifier: Apache-2.0
#include "host/cli/used_plugins.hpp"

#include "host/cli/plugin_folders.hpp"
#include "host/cli/service_table.hpp"

#include <cstdlib>
#include <system_error>

namespace tenon {

std::filesystem::path own_program() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed);
}

std::vector<PluginFolder> plugin_folders_of(const CommandLine& line) {
  const char* const variable = std::getenv("TENON_PLUGIN_PATH");
  return choose_plugin_folders(
      line.plugin_dirs, variable != nullptr ? variable : "", own_program());
}

PluginSetup plugin_setup(const CommandLine& line, Vetting vetting) {
  return {.folders = plugin_folders_of(line),
          .services = make_service_table(),
          .vetting = vetting,
          .ignores_vet_cache = !line.use_vet_cache};
}

}  // namespace tenon
