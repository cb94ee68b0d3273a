// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/sparse_optimizer_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/text/formatted.hpp"

#include <utility>

namespace tenon {
namespace {

RowSlotSpec copy_slot(const tenon_row_slot_spec& slot,
                      std::size_t i,
                      const ComponentIdentity& identity) {
  identity.check_name(slot.name, "slot", i);
  const std::string of = "slot \"" + std::string(slot.name) + "\"";
  if (slot.shape > TENON_ROW_SLOT_SCALAR) {
    identity.fail_result(formatted("{} has the unknown shape {}", of, slot.shape));
  }
  if (!is_dtype(slot.dtype)) {
    identity.fail_result(formatted("{} has dtype {}, which is none", of, slot.dtype));
  }
  return {slot.name, slot.shape, slot.dtype, slot.init};
}

}  // namespace

SparseOptimizerProxy::SparseOptimizerProxy(ComponentInstance instance)
    : instance_(std::move(instance)),
      table_(table_of<tenon_sparse_optimizer>(instance_, TENON_SPARSE_OPTIMIZER_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_sparse_optimizer, table_, describe, TENON_SPARSE_OPTIMIZER_ID, identity);
  TENON_REQUIRE(tenon_sparse_optimizer, table_, update, TENON_SPARSE_OPTIMIZER_ID, identity);

  const auto info = filled_by<tenon_sparse_optimizer_info>(
      instance_, "describe", [&](tenon_sparse_optimizer_info* out) {
        return table_->describe(instance_.self(), out);
      });
  if (info.narrow > TENON_NARROW_MASTER) {
    identity.fail_result(
        formatted("describe returned narrow {}, expected one of TENON_NARROW_*", info.narrow));
  }
  constexpr uint32_t kCpu = 1u << TENON_CPU;
  constexpr uint32_t kCuda = 1u << TENON_CUDA;
  if (info.devices == 0 || (info.devices & ~(kCpu | kCuda)) != 0) {
    identity.fail_result(formatted(
        "describe returned devices {}, expected a set of TENON_CPU and TENON_CUDA", info.devices));
  }
  if (info.slots_ref == nullptr && info.num_slots != 0) {
    identity.fail_result("describe returned slots at a null pointer");
  }
  info_.narrow = info.narrow;
  info_.runs_on_cpu = (info.devices & kCpu) != 0;
  info_.runs_on_cuda = (info.devices & kCuda) != 0;
  for (std::size_t i = 0; i < info.num_slots; ++i) {
    RowSlotSpec slot = copy_slot(element_of(info.slots_ref, i, identity), i, identity);
    for (const RowSlotSpec& other : info_.slots) {
      if (other.name == slot.name) {
        identity.fail_result("slot \"" + slot.name + "\" is declared twice");
      }
    }
    info_.slots.push_back(std::move(slot));
  }
}

}  // namespace tenon
