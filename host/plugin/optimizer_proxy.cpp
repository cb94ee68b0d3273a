// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/optimizer_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/text/formatted.hpp"

#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

// Parameters start at multiples of a block, so that large blocks would waste memory.
constexpr int64_t kMostInBlock = 65536;

constexpr uint32_t kKnownFlags = TENON_OPTIMIZER_OWN_SCHEDULE | TENON_OPTIMIZER_MATRICES_ONLY;

SlotSpec copy_slot(const tenon_slot_spec& slot,
                   std::size_t i,
                   const OptimizerInfo& info,
                   const ComponentIdentity& identity) {
  identity.check_name(slot.name, "slot", i);
  const std::string of = "slot \"" + std::string(slot.name) + "\"";
  const bool is_matrix = info.needs == TENON_OPTIMIZER_MATRIX;
  if (slot.shape > TENON_SLOT_COLUMNS) {
    identity.fail_result(formatted("{} has the unknown shape {}", of, slot.shape));
  }
  if (slot.shape == TENON_SLOT_BLOCKWISE && (is_matrix || info.block <= 1)) {
    identity.fail_result(of + (is_matrix ? " is BLOCKWISE, which an optimizer of matrices has not"
                                         : " is BLOCKWISE, but describe returned no block; set "
                                           "`block` to the number of elements"));
  }
  if ((slot.shape == TENON_SLOT_ROWS || slot.shape == TENON_SLOT_COLUMNS) && !is_matrix) {
    identity.fail_result(of +
                         " is ROWS or COLUMNS, which only an optimizer of matrices has; set "
                         "`needs` to TENON_OPTIMIZER_MATRIX");
  }
  if (!is_dtype(slot.dtype) && slot.dtype != TENON_CLASS_PARAM) {
    identity.fail_result(
        formatted("{} has dtype {}, expected a dtype or TENON_CLASS_PARAM", of, slot.dtype));
  }
  return {slot.name, slot.shape, slot.dtype, slot.init};
}

}  // namespace

std::vector<int64_t> OptimizerInfo::slot_shape(const SlotSpec& slot,
                                               const std::vector<int64_t>& piece) const {
  std::vector<int64_t> shape = piece;
  const auto axes = static_cast<std::ptrdiff_t>(piece.size());
  switch (slot.shape) {
    case TENON_SLOT_SCALAR:
      return {};
    case TENON_SLOT_BLOCKWISE:
      return {num_blocks(
          std::accumulate(piece.begin(), piece.end(), int64_t{1}, std::multiplies<int64_t>()))};
    case TENON_SLOT_ROWS:
      if (axes < 2) {
        return {};
      }
      shape.pop_back();
      return shape;
    case TENON_SLOT_COLUMNS:
      if (axes >= 2) {
        shape.erase(shape.begin() + (axes - 2));
      }
      return shape;
    default:
      return shape;
  }
}

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
  info_.flags = info.flags;
  if ((info.flags & ~kKnownFlags) != 0) {
    identity.fail_result(
        formatted("describe returned the unknown flags {}; rebuild the plugin for this host",
                  info.flags & ~kKnownFlags));
  }
  if (info_.has(TENON_OPTIMIZER_MATRICES_ONLY) && info.needs != TENON_OPTIMIZER_MATRIX) {
    identity.fail_result(
        "describe returned TENON_OPTIMIZER_MATRICES_ONLY without needs TENON_OPTIMIZER_MATRIX");
  }
  if (info.block < 0 || info.block > kMostInBlock) {
    identity.fail_result(formatted(
        "describe returned a block of {} elements (expected 0 to {})", info.block, kMostInBlock));
  }
  info_.block = info.block == 0 ? 1 : info.block;
  has_evaluation_values_ = TENON_HAS(tenon_optimizer, table_, evaluation_values);
  for (std::size_t i = 0; i < info.num_slots; ++i) {
    SlotSpec slot = copy_slot(element_of(info.slots_ref, i, identity), i, info_, identity);
    for (const SlotSpec& other : info_.slots) {
      if (other.name == slot.name) {
        identity.fail_result("slot \"" + slot.name + "\" is declared twice");
      }
    }
    info_.slots.push_back(std::move(slot));
  }
}

}  // namespace tenon
