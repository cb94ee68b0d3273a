// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for the state of an instance of any kind (contract: state.h). The proxy must not
// outlive the instance, but the instance may be moved.

#pragma once

#include <tenon/state.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <optional>

namespace tenon {

class StatefulProxy {
 public:
  // Returns null if the instance has no state.
  //
  // Errors   plugin.missing_interface if its table lacks a function
  static std::optional<StatefulProxy> of(const ComponentInstance& instance);

  const ComponentIdentity& identity() const noexcept { return *identity_; }

  // The host as the plugin sees it.
  const tenon_host* host() const noexcept { return identity_->component().plugin->host.abi(); }

  // The version of the entries that snapshot() writes.
  //
  // Errors   PluginError
  // Threads  [any]
  uint32_t version() const {
    return identity_->watch("version", [&] { return table_->version(self_); });
  }

  // Errors   PluginError
  // Threads  [step], between steps
  void snapshot(tenon_state_writer& writer) const {
    identity_->call("snapshot", [&] { return table_->snapshot(self_, &writer); });
  }

  // If it throws, the instance may only be destroyed.
  //
  // Errors   PluginError
  // Threads  [main]
  void load(tenon_state_reader& reader) const {
    identity_->call("load", [&] { return table_->load(self_, &reader); });
  }

 private:
  StatefulProxy(const ComponentIdentity& identity, const tenon_stateful* table, void* self)
      : identity_(&identity), table_(table), self_(self) {}

  const ComponentIdentity* identity_;
  const tenon_stateful* table_;
  void* self_;
};

}  // namespace tenon
