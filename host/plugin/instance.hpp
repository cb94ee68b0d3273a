// SPDX-License-Identifier: Apache-2.0
//
// One instance of a component, for as long as this object lives: created by the plugin's `create`,
// destroyed by its `destroy`. It knows what it is called, so that every failure names the
// component, its plugin, version and file. What the instance can do is behind the proxy of its
// kind. Threads: create and destroy on one thread at a time; check() on any.

#pragma once

#include <tenon/exec.h>

#include "host/error/status.hpp"
#include "host/plugin/call_watch.hpp"
#include "host/plugin/loaded_plugin.hpp"

#include <cstdint>
#include <map>
#include <memory>
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

class ComponentInstance;

struct CreateRequest {
  std::string options_json = "{}";   // validated against the schema, with every default filled in
  std::string place = {};            // JSON pointer of the component in the recipe
  uint64_t seed = 0;                 // of the run's seed and `place`
  const tenon_mesh* mesh = nullptr;  // lives as long as the instance
  // Components that options name, by the option's JSON pointer ("/tokenizer"). They must live
  // longer than the instance that is created.
  std::map<std::string, const ComponentInstance*> nested = {};
};

class ComponentInstance {
 public:
  // Errors   PluginError if the component refuses
  // Threads  [main]
  static ComponentInstance create(const LoadedComponent& component, const CreateRequest& request);

  ComponentInstance(ComponentInstance&& other) noexcept
      : identity_(std::move(other.identity_)), self_(std::exchange(other.self_, nullptr)) {}
  ComponentInstance& operator=(ComponentInstance&& other) noexcept {
    std::swap(identity_, other.identity_);
    std::swap(self_, other.self_);
    return *this;
  }
  ComponentInstance(const ComponentInstance&) = delete;
  ComponentInstance& operator=(const ComponentInstance&) = delete;
  ~ComponentInstance();

  void* self() const noexcept { return self_; }
  const ComponentIdentity& identity() const noexcept { return *identity_; }
  const tenon_component& descriptor() const noexcept { return *identity_->component().descriptor; }
  const std::string& kind() const noexcept { return identity_->component().kind; }
  const std::string& type() const noexcept { return identity_->component().type; }
  const std::string& place() const noexcept { return identity_->place(); }
  const PluginContext& plugin() const noexcept {
    return identity_->component().plugin->host.context();
  }
  // The plugin's own view of the host, for calls that take one.
  const tenon_host* host() const noexcept { return identity_->component().plugin->host.abi(); }

  // The table of an optional ability ("tenon.stateful/1"), or null where the instance lacks it.
  const void* extension(const char* id) const;

  // Throws what a call returned, if that is an error, and releases it. Costs a comparison if not.
  //
  // Errors   PluginError
  // Threads  [any]
  void check(tenon_status* status_own) const { identity_->check(status_own); }

  // Makes a call into the component (ComponentIdentity::call): each one goes through here.
  //
  // Errors   PluginError
  // Threads  [any]
  template <class Body>
  void call(const char* function, Body&& body) const {
    identity_->call(function, std::forward<Body>(body));
  }

 private:
  ComponentInstance(std::unique_ptr<const ComponentIdentity> identity, void* self)
      : identity_(std::move(identity)), self_(self) {}

  std::unique_ptr<const ComponentIdentity> identity_;  // null in one that was moved from
  void* self_;                                         // may be null: an instance without state
};

}  // namespace tenon
