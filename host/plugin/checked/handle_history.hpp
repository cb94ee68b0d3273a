// SPDX-License-Identifier: Apache-2.0
//
// What became of each tensor handle in the checking mode: which call made or borrowed it, which
// one released it, or handed it to the host. HandlePool says if a handle is valid; this says why it
// is not.
// Invariant: a handle that is made at the address of an earlier one replaces its record.
// Threads: any.
#pragma once

#include <tenon/tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

namespace tenon {

struct LoadedComponent;

// A call of a component, or none: a thread of a plugin that is in no call.
struct CallName {
  const LoadedComponent* component = nullptr;
  const char* function = "";
  uint64_t number = 0;             // of this function of the instance, from 1
  const void* instance = nullptr;  // its ComponentIdentity, for comparisons only

  // `call 3 of compute of loss "mse"`.
  std::string text() const;
};

enum class HandleState {
  kOwned,     // a service made it for the plugin
  kBorrowed,  // the host lent it for a call
  kReturned,  // the call that borrowed it has returned
  kReleased,  // by the plugin
  kHanded     // to the host, as a result
};

struct HandleRecord {
  HandleState state = HandleState::kOwned;
  std::string what;  // "aten::add.Tensor", or "inputs[0]" of a borrowed handle
  CallName made_in;
  CallName ended_in = {};

  // `aten::add.Tensor made it in call 3 of compute of loss "mse"`; for a borrowed handle,
  // `inputs[0] of call 3 of ...`.
  std::string origin() const;
};

class HandleHistory {
 public:
  void add(const tenon_tensor* handle, HandleRecord record);
  // Ends the record of a handle, if there is one.
  void end(const tenon_tensor* handle, HandleState state, const CallName& call);
  std::optional<HandleRecord> find(const tenon_tensor* handle) const;

  // Returns the handles that calls of an instance made and that are owned by the plugin still, and
  // forgets them. The first is the oldest.
  std::map<uint64_t, HandleRecord> take_owned(const void* instance);

 private:
  struct Kept {
    HandleRecord record;
    uint64_t serial = 0;
  };
  void forget_owned(const Kept& kept, const tenon_tensor* handle);

  mutable std::mutex mutex_;
  uint64_t last_serial_ = 0;
  std::unordered_map<const tenon_tensor*, Kept> records_;
  std::unordered_map<const void*, std::set<const tenon_tensor*>> owned_;  // by instance
};

}  // namespace tenon
