// SPDX-License-Identifier: Apache-2.0
//
// What libtorch's autocast does for its own products, for operators of this folder: they compute in
// the narrow dtype while autocast is on, on copies that autocast caches.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>
#include <vector>

namespace tenon {

// Narrow copies of an operator's tensors, or the tensors themselves where autocast is off. While it
// lives, autocast is off: an operator has all its operands in their final dtype.
class AutocastCopies {
 public:
  // `x` says for which device.
  explicit AutocastCopies(const at::Tensor& x)
      : device_(x.device().type()),
        is_on_(device_ != at::kMeta && at::autocast::is_autocast_enabled(device_)) {
    if (is_on_) {
      dtype_ = at::autocast::get_autocast_dtype(device_);
      off_.emplace(at::autocast::get_autocast_dispatch_key_from_device_type(device_));
    }
  }

  at::Tensor of(const at::Tensor& x) const {
    return is_on_ ? at::autocast::cached_cast(dtype_, x, device_) : x;
  }
  std::vector<at::Tensor> of(at::TensorList tensors) const {
    std::vector<at::Tensor> out;
    out.reserve(tensors.size());
    for (const at::Tensor& x : tensors) {
      out.push_back(of(x));
    }
    return out;
  }

 private:
  c10::DeviceType device_;
  bool is_on_;
  at::ScalarType dtype_ = at::kFloat;
  std::optional<c10::impl::ExcludeDispatchKeyGuard> off_;
};

}  // namespace tenon
