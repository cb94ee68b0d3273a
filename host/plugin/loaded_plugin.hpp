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
  const char* interface_id;    // the version of the kind's interface that the host uses
  const void* table;           // function table of that interface
  std::string summary;         // "" if the plugin gives none
  std::string options_schema;  // JSON text of an object

  // Returns the name for messages: `loss "mse" (plugin org.tenon.mse 0.1.0, build/plugins/mse.so)`.
  // For LoadedPlugin::itself: `plugin org.tenon.mse 0.1.0 (build/plugins/mse.so)`.
  std::string describe() const;
};

struct LoadedPlugin {
  LoadedPlugin(PluginContext context, ServiceTable services)
      : host(std::move(context), std::move(services)) {}
  LoadedPlugin(const LoadedPlugin&) = delete;
  LoadedPlugin& operator=(const LoadedPlugin&) = delete;

  PluginHost host;
  // Stands for the plugin in calls that belong to no component: its entry and its shutdown. Kind,
  // type and descriptor are empty.
  const LoadedComponent itself{.plugin = this,
                               .descriptor = nullptr,
                               .kind = {},
                               .type = {},
                               .interface_id = nullptr,
                               .table = nullptr,
                               .summary = {},
                               .options_schema = {}};
  std::vector<LoadedComponent> components;
  std::string hash = {};  // content_hash() of the file that is loaded
  // Settings of the process that loading had changed: "the umask"; "" if none. They are restored.
  std::string changed_settings = {};
  void (*shutdown)(void) = nullptr;  // null if the plugin has none, or after its call
};

}  // namespace tenon
