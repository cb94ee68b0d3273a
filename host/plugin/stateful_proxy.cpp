// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/stateful_proxy.hpp"

#include "host/plugin/interface_table.hpp"

namespace tenon {

std::optional<StatefulProxy> StatefulProxy::of(const ComponentInstance& instance) {
  const auto* const table =
      static_cast<const tenon_stateful*>(instance.extension(TENON_STATEFUL_ID));
  if (table == nullptr) {
    return std::nullopt;
  }
  const ComponentIdentity& identity = instance.identity();
  TENON_REQUIRE(tenon_stateful, table, version, TENON_STATEFUL_ID, identity);
  TENON_REQUIRE(tenon_stateful, table, snapshot, TENON_STATEFUL_ID, identity);
  TENON_REQUIRE(tenon_stateful, table, load, TENON_STATEFUL_ID, identity);
  CallChecker* const checker = call_checker();
  return StatefulProxy(identity,
                       checker != nullptr
                           ? checker->stateful_of(identity.component(), instance.self(), table)
                           : table,
                       instance.self());
}

}  // namespace tenon
