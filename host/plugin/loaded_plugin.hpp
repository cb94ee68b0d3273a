// SPDX-License-Identifier: Apache-2.0
//
// A plugin whose library is loaded and whose entry has run, with its components.
// Invariant: both structs live as long as the process, because the library does
// (plugin_loader.hpp).

#pragma once

#include <tenon/component.h>

#include "host/plugin/plugin_host.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct LoadedPlugin;

struct LoadedComponent {
  const LoadedPlugin* plugin;
  // Owned by the plugin; only fields within its struct_size may be read.
  const tenon_component* descriptor;
  std::string kind;
  std::string type;
  std::string summary;         // "" if the plugin gives none
  std::string options_schema;  // JSON text of an object
};

struct LoadedPlugin {
  LoadedPlugin(PluginContext context, ServiceTable services)
      : host(std::move(context), std::move(services)) {}

  PluginHost host;
  std::vector<LoadedComponent> components;
  void (*shutdown)(void) = nullptr;  // null if the plugin has none, or after its call
};

}  // namespace tenon
