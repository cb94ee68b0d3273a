// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/call_watch.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon {
namespace {

struct CallSlots {
  std::mutex mutex;
  std::vector<std::unique_ptr<CallSlot>> slots;
};

// Never destroyed: a library's thread may end after the static destructors have run.
CallSlots& all_slots() {
  static auto* const slots = new CallSlots;
  return *slots;
}

// Removes the slot of its thread when the thread ends.
struct SlotOwner {
  CallSlot* slot = nullptr;
  ~SlotOwner() {
    if (slot->component.load(std::memory_order_relaxed) != nullptr) {
      return;  // a plugin has called exit(), whose report needs the slot
    }
    current_call_slot = nullptr;
    CallSlots& all = all_slots();
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.slots, [this](const auto& other) { return other.get() == slot; });
  }
};

}  // namespace

constinit thread_local CallSlot* current_call_slot = nullptr;

CallSlot& add_call_slot() {
  thread_local SlotOwner owner;
  CallSlots& all = all_slots();
  const std::lock_guard lock(all.mutex);
  CallSlot& slot = *all.slots.emplace_back(std::make_unique<CallSlot>());
  owner.slot = &slot;
  current_call_slot = &slot;
  return slot;
}

void visit_calls(const std::function<void(CallSlot&)>& visit) {
  CallSlots& all = all_slots();
  const std::lock_guard lock(all.mutex);
  for (const std::unique_ptr<CallSlot>& slot : all.slots) {
    visit(*slot);
  }
}

}  // namespace tenon
