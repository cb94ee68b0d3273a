// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/generation_proxy.hpp"

#include "host/plugin/interface_table.hpp"

namespace tenon {

std::optional<GenerationProxy> GenerationProxy::of(const ComponentInstance& instance) {
  const auto* const table =
      static_cast<const tenon_generation*>(instance.extension(TENON_GENERATION_ID));
  if (table == nullptr) {
    return std::nullopt;
  }
  const ComponentIdentity& identity = instance.identity();
  TENON_REQUIRE(tenon_generation, table, describe, TENON_GENERATION_ID, identity);
  TENON_REQUIRE(tenon_generation, table, step, TENON_GENERATION_ID, identity);
  return GenerationProxy(instance, table);
}

GenerationInfo GenerationProxy::describe() const {
  const auto given = filled_by<tenon_generation_info>(
      *instance_, "describe of the generation", [&](tenon_generation_info* out) {
        return table_->describe(instance_->self(), out);
      });
  const ComponentIdentity& identity = instance_->identity();
  if (given.ids_ref == nullptr || given.logits_ref == nullptr) {
    identity.fail_result("describe of the generation returned no name of the ids or the logits");
  }
  if (given.max_positions < 1) {
    identity.fail_result(
        formatted("describe of the generation returned max_positions {}", given.max_positions));
  }
  if (given.cache_blocks_ref == nullptr && given.num_caches > 0) {
    identity.fail_result(formatted("describe of the generation returned {} caches without blocks",
                                   given.num_caches));
  }
  return {.ids = given.ids_ref,
          .logits = given.logits_ref,
          .max_positions = given.max_positions,
          .cache_blocks = {given.cache_blocks_ref, given.cache_blocks_ref + given.num_caches}};
}

}  // namespace tenon
