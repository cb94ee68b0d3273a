// SPDX-License-Identifier: Apache-2.0
//
// The identity of a component instance, which error messages name: kind, type, plugin, version and
// file. Converts the status of a call to an exception.
// Threads: any.

#pragma once

#include <tenon/status.h>

#include "host/error/status.hpp"
#include "host/plugin/call_watch.hpp"
#include "host/plugin/loaded_plugin.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tenon {

// The error of a call into a plugin. Its id() is "run.out_of_memory" for TENON_OUT_OF_MEMORY. It is
// the plugin's id if the host knows that id, because the plugin passed on the error of a host
// service. Otherwise it is "plugin.failed".
class PluginError : public StatusError {
 public:
  PluginError(uint32_t code, std::string id, std::string message, std::string status_id)
      : StatusError(code, std::move(id), std::move(message)), status_id_(std::move(status_id)) {}

  const std::string& status_id() const noexcept { return status_id_; }  // the plugin's id

 private:
  std::string status_id_;
};

// Component and place of an instance. Its address does not change when its ComponentInstance is
// moved.
class ComponentIdentity {
 public:
  ComponentIdentity(const LoadedComponent& component, std::string place)
      : component_(&component), place_(std::move(place)) {}

  const LoadedComponent& component() const noexcept { return *component_; }
  const std::string& place() const noexcept { return place_; }

  // `loss "cross_entropy" (plugin org.tenon.cross_entropy 0.1.0, build/plugins/cross_entropy.so)`.
  std::string describe() const;

  // Throws the status as a PluginError, and releases it. The message names `function` if the status
  // has no message or is TENON_INTERNAL.
  [[noreturn]] void fail(tenon_status* status_own, std::string_view function = "the call") const;
  void check(tenon_status* status_own, std::string_view function = "the call") const {
    if (status_own != nullptr) [[unlikely]] {
      fail(status_own, function);
    }
  }

  // Calls the component, monitored by the watchdog, and throws if the call returns an error.
  // `function` is a literal; `body` returns the status.
  //
  // Errors   PluginError
  // Threads  [any]
  template <class Body>
  void call(const char* function, Body&& body) const {
    tenon_status* status = nullptr;
    {
      const CallScope scope(*component_, function);
      status = body();
    }
    check(status, function);
  }

  // Throws plugin.bad_result with the message "loss ...: `what`".
  [[noreturn]] void fail_result(std::string_view what) const;
  // Throws plugin.missing_interface. The message names the missing function of the component's
  // table, or the interface if `function` is empty.
  [[noreturn]] void fail_missing(std::string_view interface_id, std::string_view function) const;

 private:
  const LoadedComponent* component_;
  std::string place_;
};

}  // namespace tenon
