// SPDX-License-Identifier: Apache-2.0

#include "host/cli/plugin_folders.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <optional>
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

constexpr const char* kDefaultFolders[] = {"../plugins", TENON_INSTALLED_PLUGINS};

// The default folder, if one exists.
std::optional<fs::path> default_folder(const fs::path& program) {
  for (const char* const relative : kDefaultFolders) {
    const fs::path folder = (program.parent_path() / relative).lexically_normal();
    std::error_code ignored;  // an inaccessible folder counts as missing
    if (fs::is_directory(folder, ignored)) {
      return folder;
    }
  }
  return std::nullopt;
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
  if (const auto folder = default_folder(program)) {
    return {{shown(*folder), "the default"}};
  }
  std::string looked;
  for (const char* const relative : kDefaultFolders) {
    const fs::path folder = (program.parent_path() / relative).lexically_normal();
    looked += (looked.empty() ? "" : " nor ") + folder.string();
  }
  throw Error("usage.no_plugin_dir",
              "no plugin folder was named, and there is neither " + looked +
                  "; name one with --plugin-dir DIR or in TENON_PLUGIN_PATH");
}

std::string unsearched_plugin_folder(const std::vector<PluginFolder>& searched,
                                     const fs::path& program) {
  const std::optional<fs::path> folder = default_folder(program);
  const auto is_it = [&folder](const PluginFolder& other) {
    std::error_code ignored;  // a folder that does not exist is another one
    return fs::equivalent(other.path, *folder, ignored);
  };
  return folder.has_value() && std::ranges::none_of(searched, is_it) ? shown(*folder) : "";
}

}  // namespace tenon
