// SPDX-License-Identifier: Apache-2.0
//
// The host as one plugin sees it: a separate tenon_host for each plugin, with the services of the
// composition root, and the plugin's name for logs and errors.
// Invariant: a PluginHost that was passed to a plugin lives as long as the process.

#pragma once

#include <tenon/host.h>

#include <map>
#include <string>

namespace tenon {

// The plugin that makes a call.
struct PluginContext {
  std::string id;       // "org.tenon.cross_entropy"
  std::string version;  // "0.1.0"
  std::string file;     // path based on the user's folder: "build/plugins/cross_entropy.so"
};

// Maps service ids ("tenon.tensor/1") to tables. Tables live as long as the process.
using ServiceTable = std::map<std::string, const void*, std::less<>>;

class PluginHost {
 public:
  PluginHost(PluginContext context, ServiceTable services);
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;
  ~PluginHost() = default;

  const tenon_host* abi() const noexcept { return &host_; }
  const PluginContext& context() const noexcept { return context_; }
  const void* find_service(const char* id) const noexcept;

 private:
  PluginContext context_;
  ServiceTable services_;
  tenon_host host_;
};

// Returns the plugin that `host` belongs to. `host` must come from a PluginHost and not be null.
//
// Threads  [any]
const PluginContext& plugin_of(const tenon_host* host) noexcept;

}  // namespace tenon
