// SPDX-License-Identifier: Apache-2.0
//
// The identity of a component instance, which error messages name: kind, type, plugin, version and
// file. Converts the status of a call to an exception.
// Threads: any.

#pragma once

#include <tenon/status.h>

#include "host/error/status.hpp"
#include "host/plugin/call_checks.hpp"
#include "host/plugin/call_watch.hpp"
#include "host/plugin/compute_threads.hpp"
#include "host/plugin/loaded_plugin.hpp"
#include "host/plugin/process_settings.hpp"
#include "host/tensor/service_misuse.hpp"

#include <cstddef>
#include <cstdint>
#include <cxxabi.h>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
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

  // The name of the component in messages.
  std::string describe() const { return component_->describe(); }

  // Throws the status as a PluginError, and releases it. The message names `function` if the status
  // has no message or is TENON_INTERNAL.
  [[noreturn]] void fail(tenon_status* status_own, std::string_view function = "the call") const;
  void check(tenon_status* status_own, std::string_view function = "the call") const {
    if (status_own != nullptr) [[unlikely]] {
      fail(status_own, function);
    }
  }

  // Calls the component, monitored by the watchdog, and returns the result of `body`. `function` is
  // a literal. No exception may leave a plugin; one that does anyway is an error of the component.
  //
  // Errors   PluginError
  // Threads  [any]
  template <class Body>
  std::invoke_result_t<Body> watch(const char* function, Body&& body) const {
    const CallScope scope(*component_, function);
    const ComputeThreads threads(*this, function);
    try {
      const std::unique_ptr<const ChangeCheck> change =
          are_calls_checked() ? begin_check(function) : nullptr;
      return std::forward<Body>(body)();
    } catch (const ::abi::__forced_unwind&) {  // the thread is being canceled
      throw;
    } catch (...) {
      fail_thrown(function);
    }
  }

  // Like watch(), for a function that returns a status. Throws if it is an error.
  //
  // Errors   PluginError
  // Threads  [any]
  template <class Body>
  void call(const char* function, Body&& body) const {
    tenon_status* const status_own = watch(function, std::forward<Body>(body));
    if (status_own != nullptr || service_misuse != nullptr) [[unlikely]] {
      fail_call(status_own, function);
    }
  }

  // Throws plugin.bad_result: `function` released a tensor handle with this problem.
  [[noreturn]] void fail_misuse(std::string_view function, std::string_view problem) const;

  // Throws the exception being handled, which left `function` of the component, as a PluginError.
  [[noreturn]] void fail_thrown(std::string_view function) const;
  // Throws `error` with a message that names the component: "loss ...: `message`".
  [[noreturn]] void fail_as(const Error& error) const;
  // Checks the name of entry `i` of what the component declared, such as `what` "port".
  //
  // Errors   plugin.bad_result if it is null or invalid (name_problem)
  void check_name(const char* name, const char* what, std::size_t i) const;
  // Checks that flags have no bits but the known ones. `of` names what has them.
  //
  // Errors   plugin.bad_result
  void check_flags(uint32_t flags, uint32_t known, std::string_view of) const;
  // Throws plugin.bad_result with the message "loss ...: `what`".
  [[noreturn]] void fail_result(std::string_view what) const;
  // Throws plugin.missing_interface. The message names the missing function of the component's
  // table, or the interface if `function` is empty.
  [[noreturn]] void fail_missing(std::string_view interface_id, std::string_view function) const;

 private:
  // Compares the settings of the process around a checked call, and restores them.
  class ChangeCheck {
   public:
    ChangeCheck(const ComponentIdentity& identity, const char* function)
        : identity_(identity), function_(function) {}
    ~ChangeCheck();
    ChangeCheck(const ChangeCheck&) = delete;
    ChangeCheck& operator=(const ChangeCheck&) = delete;

   private:
    const ComponentIdentity& identity_;
    const char* function_;
    ProcessSettings before_;
  };
  [[gnu::cold]] std::unique_ptr<const ChangeCheck> begin_check(const char* function) const;
  // Throws the status, or else what service_misuse says, and clears both.
  [[noreturn]] void fail_call(tenon_status* status_own, const char* function) const;

  const LoadedComponent* component_;
  std::string place_;
};

}  // namespace tenon
