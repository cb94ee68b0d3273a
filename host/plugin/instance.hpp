// SPDX-License-Identifier: Apache-2.0
//
// One instance of a component: created by the plugin's `create`. Copies share it, and the last one
// destroys it.
// Its errors name the component, its plugin, version and file. The proxy of each kind offers the
// functions of the instance.
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
  std::string options_json = "{}";   // validated against the schema, with all defaults
  std::string place = {};            // JSON pointer of the component in the recipe
  uint64_t seed = 0;                 // derived from the run's seed and `place`
  const tenon_mesh* mesh = nullptr;  // lives as long as the instance
  // Components that the options refer to, by JSON pointer of the option ("/tokenizer"). They must
  // outlive the new instance.
  std::map<std::string, const ComponentInstance*> nested = {};
};

class ComponentInstance {
 public:
  // Errors   PluginError of `create`
  // Threads  [main]
  static ComponentInstance create(const LoadedComponent& component, const CreateRequest& request);

  void* self() const noexcept { return self_; }
  const ComponentIdentity& identity() const noexcept { return *identity_; }
  // Returns a reference through which another plugin can call the instance.
  tenon_component_ref reference() const noexcept;
  const tenon_component& descriptor() const noexcept { return *identity_->component().descriptor; }
  const std::string& kind() const noexcept { return identity_->component().kind; }
  const std::string& type() const noexcept { return identity_->component().type; }
  const std::string& place() const noexcept { return identity_->place(); }
  const PluginContext& plugin() const noexcept {
    return identity_->component().plugin->host.context();
  }
  // The host as this plugin sees it, for calls that take a tenon_host.
  const tenon_host* host() const noexcept { return identity_->component().plugin->host.abi(); }

  // Returns the table of an extension ("tenon.stateful/1"), or null if the instance lacks it.
  const void* extension(const char* id) const;

  // Throws the status of a call if it is an error, and releases it. Costs one comparison otherwise.
  //
  // Errors   PluginError
  // Threads  [any]
  void check(tenon_status* status_own) const { identity_->check(status_own); }

  // Calls the component. All calls on the instance go through ComponentIdentity::call.
  //
  // Errors   PluginError
  // Threads  [any]
  template <class Body>
  void call(const char* function, Body&& body) const {
    identity_->call(function, std::forward<Body>(body));
  }

 private:
  ComponentInstance(std::unique_ptr<const ComponentIdentity> identity, void* self);

  std::shared_ptr<const ComponentIdentity> identity_;  // of all copies; null after a move
  void* self_;                                         // null if the instance has no state
};

}  // namespace tenon
