// SPDX-License-Identifier: Apache-2.0
//
// Finds plugins in folders, and refuses those that cannot work, all without running any of their
// code. What can only be seen by loading one is vet.hpp's part.

#pragma once

#include "host/plugin/plugin_info.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct PluginFolder {
  std::string path;
  std::string origin;  // who named it, for messages: "--plugin-dir", "TENON_PLUGIN_PATH"
};

// The folders of a colon-separated list, as TENON_PLUGIN_PATH has them. Empty parts are passed
// over.
std::vector<PluginFolder> split_plugin_path(std::string_view list, std::string_view origin);

// The libtorch that this host was built with: "version=...;git=...;cxx11abi=...;cuda=...".
std::string host_torch_fingerprint();

// One plugin file that somebody named: a file that is no plugin is refused here.
PluginInfo inspect_plugin(const std::string& file,
                          const std::string& torch_fingerprint = host_torch_fingerprint());

// All *.so files of the folders (not of folders in them) that are plugins, or should be: folder by
// folder, by name. Other libraries are skipped with a debug line. Files with one id and the
// same bytes are one plugin, the first; with other bytes all of them are refused.
//
// Errors   plugin.dir_unreadable
std::vector<PluginInfo> scan_plugins(
    std::span<const PluginFolder> folders,
    const std::string& torch_fingerprint = host_torch_fingerprint());

}  // namespace tenon
