// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/own_handles.hpp"

#include "host/tensor/handle.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tenon {

// Another thread may use the memory of a released handle again at once. So the handles are checked
// before the first is released, and a slot is emptied with its handle.
OwnHandles::~OwnHandles() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    tenon_tensor* const handle = std::exchange(slots_[i], nullptr);
    std::ranges::replace(slots_, handle, nullptr);
    release_if_handle(handle);
  }
}

void OwnHandles::check(const ComponentIdentity& identity, const char* function) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const tenon_tensor* const handle = slots_[i];
    if (handle == nullptr) {
      continue;
    }
    if (i >= size()) {
      identity.fail_result(formatted("{} stored more than {} tensors", function, size()));
    }
    if (const char* const problem = handle_problem(handle)) {
      identity.fail_result(
          formatted("{} stored, as tensor {}, a pointer that {}", function, i, problem));
    }
    const auto at = slots_.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(slots_.begin(), at, handle) != at) {
      identity.fail_result(
          formatted("{} stored one handle twice, the second time as tensor {}; "
                    "retain the tensor to store it again",
                    function,
                    i));
    }
  }
}

std::vector<at::Tensor> OwnHandles::take(const ComponentIdentity& identity, const char* function) {
  check(identity, function);
  std::vector<at::Tensor> tensors(size());
  for (std::size_t i = 0; i < size(); ++i) {
    if (tenon_tensor* const handle = std::exchange(slots_[i], nullptr)) {
      tensors[i] = take_handle(handle);
    }
  }
  return tensors;
}

}  // namespace tenon
