// SPDX-License-Identifier: Apache-2.0
//
// One instance of a component, for as long as this object lives: created by the plugin's `create`,
// destroyed by its `destroy`. It knows what it is called, so that every failure names the
// component, its plugin, version and file. What the instance can do is behind the proxy of its
// kind.
// Threads: create and destroy on one thread at a time; check() on any.

#pragma once

#include <tenon/exec.h>
#include <tenon/options.h>

#include "host/plugin/component_identity.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace tenon {

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
  // The instance as another component's plugin calls it.
  tenon_component_ref reference() const noexcept;
  const tenon_component& descriptor() const noexcept { return *identity_->component().descriptor; }
  const std::string& kind() const noexcept { return identity_->component().kind; }
  const std::string& type() const noexcept { return identity_->component().type; }
  const std::string& place() const noexcept { return identity_->place(); }
  const PluginContext& plugin() const noexcept {
    return identity_->component().plugin->host.context();
  }
  // The plugin's own view of the host, for calls that take one.
  const tenon_host* host() const noexcept { return identity_->component().plugin->host.abi(); }

  // The table of an optional ability ("tenon.stateful/1"), or null if the instance lacks it.
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
