// SPDX-License-Identifier: Apache-2.0
#include "host/device/autocast_guard.hpp"

#include <ATen/autocast_mode.h>

namespace tenon {

AutocastGuard::AutocastGuard(at::Device device, std::optional<at::ScalarType> dtype)
    : device_(device.type()), was_enabled_(at::autocast::is_autocast_enabled(device_)) {
  is_changed_ = was_enabled_ || dtype.has_value();
  if (!is_changed_) {
    return;  // the usual case; small steps would notice the calls below
  }
  was_cached_ = at::autocast::is_autocast_cache_enabled();
  old_dtype_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, dtype.has_value());
  if (dtype.has_value()) {
    at::autocast::set_autocast_dtype(device_, *dtype);
    at::autocast::set_autocast_cache_enabled(false);
  }
}

AutocastGuard::~AutocastGuard() {
  if (!is_changed_) {
    return;
  }
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_dtype_);
  at::autocast::set_autocast_cache_enabled(was_cached_);
}

}  // namespace tenon
