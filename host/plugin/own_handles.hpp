// SPDX-License-Identifier: Apache-2.0
//
// Slots that a call into a plugin fills with handles of tensors: `outputs_own` and the like. The
// handles are checked before they are used, so that a wrong one is the error of the component that
// returned it, and not a crash of the host.
// Threads: one at a time.
#pragma once

#include <tenon/tensor.h>

#include "host/plugin/component_identity.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace tenon {

class OwnHandles {
 public:
  // All slots are null.
  explicit OwnHandles(std::size_t count) : slots_(count + kBeyond, nullptr) {}
  OwnHandles(const OwnHandles&) = delete;
  OwnHandles& operator=(const OwnHandles&) = delete;
  // Releases the handles that are left, for example after a call that failed.
  ~OwnHandles();

  // For the arguments of the call.
  tenon_tensor** data() noexcept { return slots_.data(); }
  std::size_t size() const noexcept { return slots_.size() - kBeyond; }

  // Returns the tensors, undefined where the slot is null, and releases the handles.
  //
  // Errors   plugin.bad_result for a handle that is not one, that was released, or that is in two
  //          slots; or if `function` of the component filled more slots than there are
  std::vector<at::Tensor> take(const ComponentIdentity& identity, const char* function);

 private:
  void check(const ComponentIdentity& identity, const char* function) const;

  // Slots after the last one, which must stay null.
  static constexpr std::size_t kBeyond = 4;

  std::vector<tenon_tensor*> slots_;
};

}  // namespace tenon
