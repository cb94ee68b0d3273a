// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/optimizer_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/text/formatted.hpp"

#include <utility>

namespace tenon {
namespace {

SlotSpec copy_slot(const tenon_slot_spec& slot, std::size_t i, const ComponentIdentity& identity) {
  identity.check_name(slot.name, "slot", i);
  const std::string of = "slot \"" + std::string(slot.name) + "\"";
  if (slot.shape > TENON_SLOT_SCALAR) {
    identity.fail_result(formatted("{} has the unknown shape {}", of, slot.shape));
  }
  if (!is_dtype(slot.dtype) && slot.dtype != TENON_CLASS_PARAM) {
    identity.fail_result(
        formatted("{} has dtype {}, expected a dtype or TENON_CLASS_PARAM", of, slot.dtype));
  }
  return {slot.name, slot.shape, slot.dtype, slot.init};
}

}  // namespace

OptimizerProxy::OptimizerProxy(ComponentInstance instance)
    : instance_(std::move(instance)),
      table_(table_of<tenon_optimizer>(instance_, TENON_OPTIMIZER_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_optimizer, table_, describe, TENON_OPTIMIZER_ID, identity);
  TENON_REQUIRE(tenon_optimizer, table_, update, TENON_OPTIMIZER_ID, identity);

  const auto info =
      filled_by<tenon_optimizer_info>(instance_, "describe", [&](tenon_optimizer_info* out) {
        return table_->describe(instance_.self(), out);
      });
  if (info.needs > TENON_OPTIMIZER_NORM) {
    identity.fail_result(
        formatted("describe returned needs {}, expected one of TENON_OPTIMIZER_*", info.needs));
  }
  if (info.slots_ref == nullptr && info.num_slots != 0) {
    identity.fail_result("describe returned slots at a null pointer");
  }
  info_.needs = info.needs;
  for (std::size_t i = 0; i < info.num_slots; ++i) {
    SlotSpec slot = copy_slot(element_of(info.slots_ref, i, identity), i, identity);
    for (const SlotSpec& other : info_.slots) {
      if (other.name == slot.name) {
        identity.fail_result("slot \"" + slot.name + "\" is declared twice");
      }
    }
    info_.slots.push_back(std::move(slot));
  }
}

}  // namespace tenon
