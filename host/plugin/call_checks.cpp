// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/call_checks.hpp"

#include <ATen/Functions.h>

#include <functional>
#include <string_view>

namespace tenon {

constinit std::atomic<bool> are_calls_checked_now = false;

void check_calls(bool is_wanted) noexcept {
  are_calls_checked_now.store(is_wanted, std::memory_order_relaxed);
}

uint64_t content_if_checked(const at::Tensor& tensor) {
  if (!are_calls_checked() || !tensor.defined() || tensor.is_meta()) {
    return 0;
  }
  const at::Tensor elements = tensor.detach().cpu().contiguous();
  return std::hash<std::string_view>()(
      {static_cast<const char*>(elements.const_data_ptr()), elements.nbytes()});
}

}  // namespace tenon
