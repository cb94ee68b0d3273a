// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/step_sums_proxy.hpp"

#include "host/plugin/interface_table.hpp"

namespace tenon {

StepSumsProxy::StepSumsProxy(const ComponentInstance& instance, const tenon_step_sums* table)
    : instance_(&instance),
      table_(table),
      has_end_step_(TENON_HAS(tenon_step_sums, table, end_step)) {}

std::optional<StepSumsProxy> StepSumsProxy::of(const ComponentInstance& instance) {
  const auto* const table =
      static_cast<const tenon_step_sums*>(instance.extension(TENON_STEP_SUMS_ID));
  if (table == nullptr) {
    return std::nullopt;
  }
  TENON_REQUIRE(tenon_step_sums, table, describe, TENON_STEP_SUMS_ID, instance.identity());
  return StepSumsProxy(instance, table);
}

StepSumsDescription StepSumsProxy::describe() const {
  const auto given = filled_by<tenon_step_sums_info>(
      *instance_, "describe of the step sums", [&](tenon_step_sums_info* out) {
        return table_->describe(instance_->self(), out);
      });
  const ComponentIdentity& identity = instance_->identity();
  const bool has_balances = given.num_balances > 0;
  if ((given.buffers_ref == nullptr && given.num_buffers > 0) ||
      (has_balances &&
       (given.balance_blocks_ref == nullptr || given.balance_experts_ref == nullptr))) {
    identity.fail_result("describe of the step sums returned a number without its array");
  }
  StepSumsDescription description{
      .buffers = {given.buffers_ref, given.buffers_ref + given.num_buffers}, .balances = {}};
  for (size_t i = 0; i < given.num_balances; ++i) {
    if (given.balance_experts_ref[i] < 1) {
      identity.fail_result(
          formatted("describe of the step sums returned a balance loss of {} "
                    "experts",
                    given.balance_experts_ref[i]));
    }
    description.balances.push_back({given.balance_blocks_ref[i], given.balance_experts_ref[i]});
  }
  return description;
}

}  // namespace tenon
