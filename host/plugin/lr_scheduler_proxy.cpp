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
  TENON_REQUIRE(tenon_lr_scheduler, table_, describe, TENON_LR_SCHEDULER_ID, identity);
  TENON_REQUIRE(tenon_lr_scheduler, table_, factor, TENON_LR_SCHEDULER_ID, identity);
  const auto info = filled_by<tenon_lr_scheduler_info>(
      instance_, "describe", [this](tenon_lr_scheduler_info* out) {
        return table_->describe(instance_.self(), out);
      });
  needs_total_ = info.needs_total != 0;
}

double LrSchedulerProxy::factor(uint64_t step, uint64_t total) const {
  tenon_lr_factor_args args{
      .struct_size = sizeof(tenon_lr_factor_args), .step = step, .total = total, .out_factor = 0};
  instance_.call("factor", [&] { return table_->factor(instance_.self(), &args); });
  if (!std::isfinite(args.out_factor) || args.out_factor < 0) [[unlikely]] {
    instance_.identity().fail_result(formatted(
        "the factor of step {} is {}, expected a finite number from 0 on", step, args.out_factor));
  }
  return args.out_factor;
}

}  // namespace tenon
