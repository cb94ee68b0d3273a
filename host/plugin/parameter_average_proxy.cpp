// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/parameter_average_proxy.hpp"

#include "host/plugin/interface_table.hpp"

namespace tenon {

std::optional<ParameterAverageProxy> ParameterAverageProxy::of(const ComponentInstance& instance) {
  const auto* const table =
      static_cast<const tenon_parameter_average*>(instance.extension(TENON_PARAMETER_AVERAGE_ID));
  if (table == nullptr) {
    return std::nullopt;
  }
  const ComponentIdentity& identity = instance.identity();
  TENON_REQUIRE(tenon_parameter_average, table, update, TENON_PARAMETER_AVERAGE_ID, identity);
  return ParameterAverageProxy(identity, table, instance.self());
}

}  // namespace tenon
