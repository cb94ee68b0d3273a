// SPDX-License-Identifier: Apache-2.0
//
// What the host knows of one plugin file: what its manifest says, and whether it may be used.

#pragma once

#include "host/error/error.hpp"
#include "host/plugin/manifest.hpp"

#include <optional>
#include <string>

namespace tenon {

struct PluginInfo {
  std::string file;   // "build/plugins/llama.so"
  Manifest manifest;  // with an empty id where it could not be read
  // Why it may not be used: a plugin.* error whose message names file, reason and fix in one line.
  std::optional<Error> refusal;
  // What it printed before it died, and where that was; many lines. "" in most cases.
  std::string details;
  // The file with the same bytes that is used instead; "" if there is none.
  std::string same_as;

  bool is_usable() const noexcept { return !refusal && same_as.empty(); }
  bool offers(const ComponentName& name) const noexcept {
    for (const ComponentName& component : manifest.components) {
      if (component == name) {
        return true;
      }
    }
    return false;
  }
  // "build/plugins/llama.so (org.tenon.llama 0.1.0)", as far as it is known.
  std::string describe() const {
    return manifest.id.empty() ? file : file + " (" + manifest.id + " " + manifest.version + ")";
  }
};

}  // namespace tenon
