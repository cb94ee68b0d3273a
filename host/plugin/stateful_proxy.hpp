// SPDX-License-Identifier: Apache-2.0
//
// The state of an instance of any kind that offers it (state.h has the contract). It borrows the
// instance: it must not outlive it, but the instance may be moved.

#pragma once

#include <tenon/state.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <optional>

namespace tenon {

class StatefulProxy {
 public:
  // None if the instance has no state.
  //
  // Errors   plugin.missing_interface if it has, but not all of the functions
  static std::optional<StatefulProxy> of(const ComponentInstance& instance);

  const ComponentIdentity& identity() const noexcept { return *identity_; }

  // As the plugin sees the host.
  const tenon_host* host() const noexcept { return identity_->component().plugin->host.abi(); }

  // Of the entries that snapshot() writes.
  // Threads [any]
  uint32_t version() const { return table_->version(self_); }

  // Errors   PluginError
  // Threads  [step], between steps
  void snapshot(tenon_state_writer& writer) const {
    identity_->call("snapshot", [&] { return table_->snapshot(self_, &writer); });
  }

  // When it throws, the instance may be used for nothing but to be destroyed.
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
