// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/distinct_ids.hpp"

#include "host/tensor/philox.hpp"

#include <algorithm>

namespace tenon {
namespace {

constexpr size_t kFirstSlots = 64;

}  // namespace

uint32_t DistinctIds::add(int64_t id) {
  if (2 * (ids_.size() + 1) > slots_.size()) {
    grow();
  }
  const size_t mask = slots_.size() - 1;
  for (size_t at = mix_bits(static_cast<uint64_t>(id)) & mask;; at = (at + 1) & mask) {
    uint32_t& slot = slots_[at];
    if (slot == 0) {
      ids_.push_back(id);
      slot = static_cast<uint32_t>(ids_.size());
      return slot - 1;
    }
    if (ids_[slot - 1] == id) {
      return slot - 1;
    }
  }
}

void DistinctIds::clear() {
  ids_.clear();
  std::ranges::fill(slots_, 0);
}

void DistinctIds::grow() {
  std::vector<uint32_t> slots(std::max(kFirstSlots, 2 * slots_.size()), 0);
  const size_t mask = slots.size() - 1;
  for (size_t i = 0; i < ids_.size(); ++i) {
    size_t at = mix_bits(static_cast<uint64_t>(ids_[i])) & mask;
    while (slots[at] != 0) {
      at = (at + 1) & mask;
    }
    slots[at] = static_cast<uint32_t>(i + 1);
  }
  slots_ = std::move(slots);
}

}  // namespace tenon
