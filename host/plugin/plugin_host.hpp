// SPDX-License-Identifier: Apache-2.0
//
// The host as one plugin sees it: its own tenon_host, behind which stand the services that the
// composition root offers and the plugin's own name, for logs and errors.
// Invariant: a PluginHost that a plugin was handed lives as long as the process.

#pragma once

#include <tenon/host.h>

#include <map>
#include <string>

namespace tenon {

// Who a call comes from.
struct PluginContext {
  std::string id;       // "org.tenon.cross_entropy"
  std::string version;  // "0.1.0"
  std::string file;     // as the user's folder gave it: "build/plugins/cross_entropy.so"
};

// Service id ("tenon.tensor/1") to its table. Tables live as long as the process.
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

// The plugin that `host` was made for. `host` must be one of PluginHost's, and not null.
//
// Threads  [any]
const PluginContext& plugin_of(const tenon_host* host) noexcept;

}  // namespace tenon
