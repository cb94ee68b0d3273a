// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/metric_sink_proxy.hpp"

#include "host/plugin/interface_table.hpp"

#include <utility>

namespace tenon {

MetricSinkProxy::MetricSinkProxy(ComponentInstance instance)
    : instance_(std::move(instance)),
      table_(table_of<tenon_metric_sink>(instance_, TENON_METRIC_SINK_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_metric_sink, table_, open, TENON_METRIC_SINK_ID, identity);
  TENON_REQUIRE(tenon_metric_sink, table_, write, TENON_METRIC_SINK_ID, identity);
  TENON_REQUIRE(tenon_metric_sink, table_, flush, TENON_METRIC_SINK_ID, identity);
}

}  // namespace tenon
