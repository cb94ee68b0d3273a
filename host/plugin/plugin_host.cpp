// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/plugin_host.hpp"

#include "host/plugin/call_checker.hpp"

#include <tenon_build.hpp>
#include <utility>

namespace tenon {
namespace {

const void* get_interface(const tenon_host* host, const char* id) {
  if (host == nullptr || id == nullptr) {
    return nullptr;
  }
  return static_cast<const PluginHost*>(host->impl)->find_service(id);
}

// The services as plugins get them: those of the checking mode, if calls are checked.
ServiceTable given(ServiceTable services) {
  if (CallChecker* const checker = call_checker()) {
    for (auto& [id, table] : services) {
      table = checker->service(id, table);
    }
  }
  return services;
}

}  // namespace

PluginHost::PluginHost(PluginContext context, ServiceTable services)
    : context_(std::move(context)),
      services_(given(std::move(services))),
      host_{.struct_size = sizeof(tenon_host),
            .abi_major = TENON_ABI_MAJOR,
            .abi_minor = TENON_ABI_MINOR,
            .version = kVersion,
            .impl = this,
            .get_interface = get_interface} {}

const void* PluginHost::find_service(const char* id) const noexcept {
  const auto found = services_.find(id);
  return found != services_.end() ? found->second : nullptr;
}

const PluginContext& plugin_of(const tenon_host* host) noexcept {
  return static_cast<const PluginHost*>(host->impl)->context();
}

}  // namespace tenon
