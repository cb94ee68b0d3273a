// SPDX-License-Identifier: Apache-2.0
//
// A plugin's manifest (tenon/manifest.h): what is known of it before any of its code runs. Whether
// this host can use such a plugin is decided elsewhere (plugin_scan.hpp).

#pragma once

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
  std::string abi;    // "0.2"
  std::string lane;   // "stable", "torch", or whatever a later SDK has
  std::string torch;  // the fingerprint of the libtorch it was built with; "" in the stable lane
  std::vector<ComponentName> components;
};

enum class ManifestReading {
  kOk,
  kNotElf,      // no library at all: nobody's business
  kNoManifest,  // a library, and not a plugin
  kForeign,     // a plugin, for another machine; `manifest` holds what it says
  kBad,         // a plugin whose manifest is wrong, or a library that is cut or corrupted
  kUnreadable,
};

struct ManifestFile {
  ManifestReading reading = ManifestReading::kNotElf;
  std::string problem;  // says why it is not kOk
  Manifest manifest;
};

// Reads the manifest of `file`.
//
// Threads  [any]
ManifestFile read_manifest(const std::string& file);

// The same from the note's text; "" in `problem` where it is legal.
Manifest parse_manifest(std::string_view text, std::string& problem);

// True for what component.h allows as a type: lower case, digits, '_'; not longer than 64.
bool is_type_name(std::string_view name) noexcept;

}  // namespace tenon
