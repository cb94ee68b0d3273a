// SPDX-License-Identifier: Apache-2.0

#include "host/cli/plugin_folders.hpp"

#include "host/error/error.hpp"

#include <system_error>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// A path relative to the current folder if it is below it, to shorten messages.
std::string shown(const fs::path& folder) {
  std::error_code failed;
  const fs::path near = fs::proximate(folder, failed);
  return failed || near.empty() || *near.begin() == ".." ? folder.string() : near.string();
}

}  // namespace

std::vector<PluginFolder> choose_plugin_folders(const std::vector<std::string>& named,
                                                std::string_view path_variable,
                                                const fs::path& program) {
  std::vector<PluginFolder> folders;
  folders.reserve(named.size());
  for (const std::string& folder : named) {
    folders.push_back({folder, "--plugin-dir"});
  }
  for (PluginFolder& folder : split_plugin_path(path_variable, "TENON_PLUGIN_PATH")) {
    folders.push_back(std::move(folder));
  }
  if (!folders.empty()) {
    return folders;
  }
  std::string looked;
  for (const char* const place : {"../plugins", TENON_INSTALLED_PLUGINS}) {
    const fs::path folder = (program.parent_path() / place).lexically_normal();
    std::error_code ignored;  // an inaccessible folder counts as missing
    if (fs::is_directory(folder, ignored)) {
      return {{shown(folder), "the default"}};
    }
    looked += (looked.empty() ? "" : " nor ") + folder.string();
  }
  throw Error("usage.no_plugin_dir",
              "no plugin folder was named, and there is neither " + looked +
                  "; name one with --plugin-dir DIR or in TENON_PLUGIN_PATH");
}

}  // namespace tenon
