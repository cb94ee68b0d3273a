// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/handle_history.hpp"

#include "host/plugin/loaded_plugin.hpp"
#include "host/tensor/handle.hpp"
#include "host/text/formatted.hpp"

#include <utility>

namespace tenon {

std::string CallName::text() const {
  if (component == nullptr) {
    return "a thread that is in no call of the host";
  }
  const std::string of = component->kind.empty()
                             ? "the plugin"
                             : formatted("{} \"{}\"", component->kind, component->type);
  return formatted("call {} of {} of {}", number, function, of);
}

std::string HandleRecord::origin() const {
  return state == HandleState::kBorrowed || state == HandleState::kReturned
             ? what + " of " + made_in.text()
             : what + " made it in " + made_in.text();
}

void HandleHistory::forget_owned(const Kept& kept, const tenon_tensor* handle) {
  if (const auto of = owned_.find(kept.record.made_in.instance); of != owned_.end()) {
    of->second.erase(handle);
  }
}

void HandleHistory::add(const tenon_tensor* handle, HandleRecord record) {
  const std::lock_guard lock(mutex_);
  Kept& kept = records_[handle];
  forget_owned(kept, handle);
  kept = {std::move(record), ++last_serial_};
  if (kept.record.state == HandleState::kOwned && kept.record.made_in.instance != nullptr) {
    owned_[kept.record.made_in.instance].insert(handle);
  }
}

void HandleHistory::end(const tenon_tensor* handle, HandleState state, const CallName& call) {
  const std::lock_guard lock(mutex_);
  if (const auto found = records_.find(handle); found != records_.end()) {
    found->second.record.state = state;
    found->second.record.ended_in = call;
    forget_owned(found->second, handle);
  }
}

std::optional<HandleRecord> HandleHistory::find(const tenon_tensor* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(handle);
  return found != records_.end() ? std::optional(found->second.record) : std::nullopt;
}

std::map<uint64_t, HandleRecord> HandleHistory::take_owned(const void* instance) {
  const std::lock_guard lock(mutex_);
  std::map<uint64_t, HandleRecord> owned;
  if (const auto of = owned_.find(instance); of != owned_.end()) {
    for (const tenon_tensor* const handle : of->second) {
      // The host may have taken a result that no checked table saw.
      if (handle_problem(handle) == nullptr) {
        const Kept& kept = records_.at(handle);
        owned.emplace(kept.serial, kept.record);
      }
    }
    owned_.erase(of);
  }
  return owned;
}

}  // namespace tenon
