// SPDX-License-Identifier: Apache-2.0
//
// One plugin file, its manifest, and whether the host can use it.

#pragma once

#include "host/error/error.hpp"
#include "host/plugin/manifest.hpp"
#include "host/trust/trust.hpp"

#include <optional>
#include <string>

namespace tenon {

struct PluginInfo {
  std::string file;   // "build/plugins/llama.so"
  Manifest manifest;  // its id is empty if it could not be read
  // Null if the plugin can be used. Otherwise a plugin.* error whose message names file, reason and
  // fix in one line.
  std::optional<Error> refusal;
  // What the plugin printed while it was vetted, and the frames of a crash; several lines, or "".
  std::string details;
  // The file with identical bytes that is used instead; "" if there is none.
  std::string same_as;
  // The file when its manifest was read.
  std::optional<FileStamp> stamp = {};
  // The content_hash() of the file whose signature was verified, or that was vetted; "" if neither
  // happened.
  std::string hash = {};
  // The name of the key that signed the file; "" without a trust file.
  std::string signer = {};
  // True if the file is corrupt or for another machine. Its refusal is logged once, not at every
  // start (notices.hpp).
  bool is_named_once = false;

  bool is_usable() const noexcept { return !refusal && same_as.empty(); }
  bool offers(const ComponentName& name) const noexcept {
    for (const ComponentName& component : manifest.components) {
      if (component == name) {
        return true;
      }
    }
    return false;
  }
  // "build/plugins/llama.so (org.tenon.llama 0.1.0)", or only the file if the id is unknown.
  std::string describe() const {
    return manifest.id.empty() ? file : file + " (" + manifest.id + " " + manifest.version + ")";
  }
};

}  // namespace tenon
