// SPDX-License-Identifier: Apache-2.0
//
// Finds plugins in folders and refuses those that cannot work, without running any of their code.
// PluginVetter (trust.hpp) finds problems that show only when a plugin is loaded.

#pragma once

#include "host/plugin/plugin_info.hpp"
#include "host/trust/trust.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct PluginFolder {
  std::string path;
  std::string origin;  // its source, for messages: "--plugin-dir", "TENON_PLUGIN_PATH"
};

// Returns the folders of a colon-separated list such as TENON_PLUGIN_PATH. Empty parts are skipped.
std::vector<PluginFolder> split_plugin_path(std::string_view list, std::string_view origin);

// Returns the libtorch of the host's build: "version=...;git=...;cxx11abi=...;cuda=...".
std::string host_torch_fingerprint();

// Inspects a plugin file that the user named. A file that is not a plugin is refused.
PluginInfo inspect_plugin(const std::string& file,
                          const std::string& torch_fingerprint = host_torch_fingerprint());

// Which plugins a scan accepts.
struct ScanRules {
  std::string torch_fingerprint = host_torch_fingerprint();
  Writable writable = Writable::kRefused;
  std::optional<TrustedKeys> trust = std::nullopt;  // if set, only plugins that a key has signed
};

// What a scan found beside plugins.
struct ScanRemarks {
  std::vector<std::string> not_plugins = {};  // "a.so is not a plugin: it is not a shared library"
  std::vector<Notice> notices = {};           // warnings to log once
};

// Returns the plugins among the *.so files of the folders, folder by folder, sorted by name. The
// result includes broken plugins. Subfolders are not searched. Other files are skipped, with a
// remark. If files share an id, identical copies are replaced by the first. If the contents differ,
// all files with the id are refused. `remarks` may be null.
//
// Errors   plugin.dir_unreadable
std::vector<PluginInfo> scan_plugins(std::span<const PluginFolder> folders,
                                     const ScanRules& rules = {},
                                     ScanRemarks* remarks = nullptr);

}  // namespace tenon
