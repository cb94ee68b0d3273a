// SPDX-License-Identifier: Apache-2.0
//
// libtorch's autocast on one device for as long as the guard lives: operators that gain from it run
// in a narrower dtype, operators that need fp32 get it. Its weight cache is off, since parameters
// come and go between a forward and its backward, and a cached copy would outlive them.
// Invariant: afterwards autocast is as it was.
// Threads: of the calling thread alone.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace tenon {

class AutocastGuard {
 public:
  // Without a dtype autocast is switched off for as long.
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
