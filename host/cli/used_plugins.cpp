// SPDX-License-Identifier: Apache-2.0
#include "host/cli/used_plugins.hpp"

#include "host/cli/plugin_folders.hpp"
#include "host/cli/service_table.hpp"
#include "host/error/utf8.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/trust/trust.hpp"

#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace tenon {
namespace {

bool environment_allows_writable() {
  const char* const value = std::getenv("TENON_ALLOW_WRITABLE_PLUGINS");
  const std::string text = value != nullptr ? value : "";
  if (!text.empty() && text != "0" && text != "1") {
    throw Error("usage.bad_option",
                "TENON_ALLOW_WRITABLE_PLUGINS is \"" + text + "\"; expected 0 or 1");
  }
  return text == "1";
}

}  // namespace

std::filesystem::path own_program() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed);
}

std::vector<PluginFolder> plugin_folders_of(const CommandLine& line) {
  const char* const variable = std::getenv("TENON_PLUGIN_PATH");
  const std::string path = variable != nullptr ? variable : "";
  if (!is_utf8(path)) {
    fail_usage("TENON_PLUGIN_PATH " + not_utf8_text(path));
  }
  return choose_plugin_folders(line.plugin_dirs, path, own_program());
}

ScanRules scan_rules(const CommandLine& line, const std::string& recipe_trust) {
  ScanRules rules;
  if (line.allows_writable_plugins || environment_allows_writable()) {
    rules.writable = Writable::kAllowed;
  }
  const std::string& file = line.trust.empty() ? recipe_trust : line.trust;
  if (!file.empty()) {
    rules.trust = read_trust_file(file, rules.writable);
  }
  return rules;
}

PluginSetup plugin_setup(const CommandLine& line,
                         Vetting vetting,
                         const std::string& recipe_trust) {
  std::vector<PluginFolder> folders = plugin_folders_of(line);
  std::string unsearched = unsearched_plugin_folder(folders, own_program());
  return {.folders = std::move(folders),
          .unsearched_folder = std::move(unsearched),
          .services = make_service_table(),
          .vetting = vetting,
          .ignores_vet_cache = !line.use_vet_cache,
          .rules = scan_rules(line, recipe_trust)};
}

}  // namespace tenon
