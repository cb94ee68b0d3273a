// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/loss_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/text/formatted.hpp"

#include <string>
#include <utility>

namespace tenon {

LossProxy::LossProxy(ComponentInstance instance)
    : instance_(std::move(instance)), table_(table_of<tenon_loss>(instance_, TENON_LOSS_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_loss, table_, describe, TENON_LOSS_ID, identity);
  TENON_REQUIRE(tenon_loss, table_, count, TENON_LOSS_ID, identity);
  TENON_REQUIRE(tenon_loss, table_, compute, TENON_LOSS_ID, identity);
  has_backward_ = TENON_HAS(tenon_loss, table_, backward);

  tenon_loss_info info{};
  info.struct_size = sizeof(info);
  instance_.call("describe", [&] { return table_->describe(instance_.self(), &info); });
  if (info.additive_over > TENON_ADDITIVE_TOKENS) {
    identity.fail_result(
        formatted("describe returned additive_over {}, expected one of TENON_ADDITIVE_*",
                  info.additive_over));
  }
  info_.additive_over = info.additive_over;
  info_.counts_from_batch = (info.flags & TENON_LOSS_COUNT_FROM_BATCH) != 0;
  info_.ports = copy_ports(info.ports_ref, info.num_ports, identity);
}

void LossProxy::fail_no_result(const char* function) const {
  instance_.identity().fail_result(std::string(function) + " returned success and no tensor");
}

}  // namespace tenon
