// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/lr_scheduler_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/text/formatted.hpp"

#include <cmath>
#include <utility>

namespace tenon {

LrSchedulerProxy::LrSchedulerProxy(ComponentInstance instance)
    : instance_(std::move(instance)),
      table_(table_of<tenon_lr_scheduler>(instance_, TENON_LR_SCHEDULER_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_lr_scheduler, table_, needs_total, TENON_LR_SCHEDULER_ID, identity);
  TENON_REQUIRE(tenon_lr_scheduler, table_, factor, TENON_LR_SCHEDULER_ID, identity);
  needs_total_ =
      identity.watch("needs_total", [this] { return table_->needs_total(instance_.self()); });
}

double LrSchedulerProxy::factor(uint64_t step, uint64_t total) const {
  double value = 0;
  instance_.call("factor", [&] { return table_->factor(instance_.self(), step, total, &value); });
  if (!std::isfinite(value) || value < 0) [[unlikely]] {
    instance_.identity().fail_result(
        formatted("the factor of step {} is {}, expected a finite number from 0 on", step, value));
  }
  return value;
}

}  // namespace tenon
