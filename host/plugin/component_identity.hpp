// SPDX-License-Identifier: Apache-2.0
//
// Names one instance of a component in every failure: its kind, type, plugin, version and file.
// Turns the status of a call into an exception.
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

// What a call into a plugin reported. Its id() is the one that the plugin gave where that is one of
// the host's own (a host service failed, and the plugin passed that on), else "plugin.failed".
class PluginError : public StatusError {
 public:
  PluginError(uint32_t code, std::string id, std::string message, std::string status_id)
      : StatusError(code, std::move(id), std::move(message)), status_id_(std::move(status_id)) {}

  const std::string& status_id() const noexcept { return status_id_; }  // as the plugin gave it

 private:
  std::string status_id_;
};

// What an instance is called. It stays where it is when its ComponentInstance is moved.
class ComponentIdentity {
 public:
  ComponentIdentity(const LoadedComponent& component, std::string place)
      : component_(&component), place_(std::move(place)) {}

  const LoadedComponent& component() const noexcept { return *component_; }
  const std::string& place() const noexcept { return place_; }

  // `loss "cross_entropy" (plugin org.tenon.cross_entropy 0.1.0, build/plugins/cross_entropy.so)`.
  std::string describe() const;

  // Throws what `status` says as a PluginError, and releases it. `function` is named where the
  // status does not say what failed.
  [[noreturn]] void fail(tenon_status* status_own, std::string_view function = "the call") const;
  void check(tenon_status* status_own, std::string_view function = "the call") const {
    if (status_own != nullptr) [[unlikely]] {
      fail(status_own, function);
    }
  }

  // Makes a call into the component, in sight of the watchdog, and throws what it returned, if that
  // is an error. `function` is a literal, `body` returns the status.
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

  // Throws plugin.bad_result: "loss ... : `what`".
  [[noreturn]] void fail_result(std::string_view what) const;
  // Throws plugin.missing_interface, naming a function that the component's table lacks.
  [[noreturn]] void fail_missing(std::string_view interface_id, std::string_view function) const;

 private:
  const LoadedComponent* component_;
  std::string place_;
};

}  // namespace tenon
