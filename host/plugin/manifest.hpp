// SPDX-License-Identifier: Apache-2.0
//
// Reads the manifest of a plugin (tenon/manifest.h), without running any of the plugin's code.
// plugin_scan.hpp decides whether this host can use the plugin.

#pragma once

#include "host/plugin/abi_range.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct ComponentName {
  std::string kind;
  std::string type;

  auto operator<=>(const ComponentName&) const = default;
};

struct Manifest {
  std::string id;
  std::string version;
  AbiRange abi;       // versions of hosts that the plugin runs with
  std::string lane;   // "stable", "torch", or a lane of a later SDK
  std::string torch;  // fingerprint of the libtorch of the build; "" in the stable lane
  std::vector<ComponentName> components;
  std::vector<std::string> services = {};  // that the plugin requires: "tenon.op/1"
  // The first key that a host must understand and that this host does not know, "!gpu"; or "".
  std::string unknown_key = {};
};

enum class ManifestReading {
  kOk,
  kNotElf,      // not a library
  kNoManifest,  // a library that is not a plugin
  kForeign,     // a plugin for another machine; `manifest` is set
  kBad,         // a plugin with an invalid manifest, or a truncated or corrupt library
  kUnreadable,
};

struct ManifestFile {
  ManifestReading reading = ManifestReading::kNotElf;
  std::string problem;  // the reason if `reading` is not kOk, in a sentence about the file
  Manifest manifest;
  bool is_native_library = false;  // true for a library of this machine, with or without a manifest
};

// Reads the manifest of `file`.
//
// Threads  [any]
ManifestFile read_manifest(const std::string& file);

// Parses the text of the note. Sets `problem` to the first error, or to "" if the text is valid. A
// key that this host does not know is no error.
Manifest parse_manifest(std::string_view text, std::string& problem);

// True if component.h allows `name` as a type: lower case, digits and '_', starting with a letter,
// at most 64 characters.
bool is_type_name(std::string_view name) noexcept;

}  // namespace tenon
