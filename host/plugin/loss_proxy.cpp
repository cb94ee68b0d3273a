// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/loss_proxy.hpp"

#include <tenon/draft/tensor.h>

#include "host/plugin/interface_table.hpp"
#include "host/tensor/handle.hpp"
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

  const auto info = filled_by<tenon_loss_info>(instance_, "describe", [&](tenon_loss_info* out) {
    return table_->describe(instance_.self(), out);
  });
  if (info.additive_over > TENON_ADDITIVE_TOKENS) {
    identity.fail_result(
        formatted("describe returned additive_over {}, expected one of TENON_ADDITIVE_*",
                  info.additive_over));
  }
  identity.check_flags(info.flags, TENON_LOSS_COUNT_FROM_BATCH | TENON_LOSS_DIVISIBLE, "the loss");
  info_.additive_over = info.additive_over;
  info_.counts_from_batch = (info.flags & TENON_LOSS_COUNT_FROM_BATCH) != 0;
  info_.is_divisible = (info.flags & TENON_LOSS_DIVISIBLE) != 0;
  info_.ports = copy_ports(info.ports_ref, info.num_ports, identity);
}

void LossProxy::check_result(const char* function, const tenon_tensor* result_own) const {
  if (result_own == nullptr) {
    instance_.identity().fail_result(std::string(function) + " returned success and no tensor");
  }
  if (const char* const problem = handle_problem(result_own)) {
    instance_.identity().fail_result(formatted("{} returned a pointer that {}", function, problem));
  }
}

}  // namespace tenon
