// SPDX-License-Identifier: Apache-2.0
//
// Sets libtorch's autocast on one device for the lifetime of the guard. Operators that benefit run
// in a narrower dtype; operators that need fp32 get fp32. The weight cache is off, because
// parameters may be freed between a forward pass and its backward pass, and cached copies would
// outlive them.
// Invariant: the destructor restores the previous settings.
// Threads: affects only the calling thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace tenon {

class AutocastGuard {
 public:
  // Without a dtype, autocast is off for the lifetime of the guard.
  AutocastGuard(at::Device device, std::optional<at::ScalarType> dtype);
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  ~AutocastGuard();

 private:
  at::DeviceType device_;
  bool was_enabled_;
  bool is_changed_ = false;
  bool was_cached_ = false;
  at::ScalarType old_dtype_ = at::kFloat;
};

}  // namespace tenon
