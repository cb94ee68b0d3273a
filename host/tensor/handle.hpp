// SPDX-License-Identifier: Apache-2.0
//
// Tensor handles: a `tenon_tensor*` is an `at::Tensor*`, like libtorch's own C handle. These
// functions make, read and release handles on the host's side; plugins use tensor_service.hpp.
// Invariants: an owned handle is in handle_pool.hpp and holds a defined tensor; a borrowed handle
// is the address of an at::Tensor of the host, and is never released. Threads: every function may
// be called from any thread; one handle is one object, not locked.

#pragma once

#include <tenon/tensor.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {

// Returns a new handle of a tensor. `holder` is the host of the plugin that gets it, if it is
// known: HandlePool counts the handles of each.
//
// Owner  the caller, who passes it to a plugin as `_own`, or releases it with take_handle or
//        release_handle
[[nodiscard]] tenon_tensor* new_handle(at::Tensor tensor, const tenon_host* holder = nullptr);

// Releases a handle and returns its tensor. The handle must not be null.
[[nodiscard]] at::Tensor take_handle(tenon_tensor* handle_own) noexcept;

// Releases a handle. Null is allowed.
void release_handle(tenon_tensor* handle_own) noexcept;
// Releases what a plugin left in a `_own` slot, if it is an owned handle. Null is allowed, and so
// is any other pointer: it is left alone.
void release_if_handle(tenon_tensor* slot) noexcept;

// Returns what is wrong with a handle that a plugin passes as `_own`: "is not a handle of this
// host", or "has already been released"; null if it is an owned handle. `handle_own` is not null.
const char* handle_problem(const tenon_tensor* handle_own) noexcept;

// Returns the tensor of a handle, owned or borrowed. The handle must not be null.
inline const at::Tensor& tensor_of(const tenon_tensor* handle) noexcept {
  return *reinterpret_cast<const at::Tensor*>(handle);
}

// Returns a handle that points at `tensor` itself, without an allocation or a new reference.
//
// Owner  valid as long as `tensor` stays at its address; must not be released
inline const tenon_tensor* borrow(const at::Tensor& tensor) noexcept {
  return reinterpret_cast<const tenon_tensor*>(&tensor);
}
// Same, if the receiver may change the tensor's values.
inline tenon_tensor* borrow_mutable(at::Tensor& tensor) noexcept {
  return reinterpret_cast<tenon_tensor*>(&tensor);
}

// Returns handles of tensors that outlive them; null for an undefined tensor.
inline std::vector<const tenon_tensor*> borrow_all(const std::vector<at::Tensor>& tensors) {
  std::vector<const tenon_tensor*> handles;
  handles.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    handles.push_back(tensor.defined() ? borrow(tensor) : nullptr);
  }
  return handles;
}

// Owns at most one handle: for results that a plugin writes into a `_own` slot.
//
//   HandleGuard sum;
//   check(loss->compute(self, exec, inputs, n, sum.out()));
//   at::Tensor result = sum.take();
class HandleGuard {
 public:
  HandleGuard() = default;
  explicit HandleGuard(tenon_tensor* handle_own) noexcept : handle_(handle_own) {}
  HandleGuard(const HandleGuard&) = delete;
  HandleGuard& operator=(const HandleGuard&) = delete;
  HandleGuard(HandleGuard&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  HandleGuard& operator=(HandleGuard&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~HandleGuard() { release_handle(handle_); }

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  tenon_tensor* get() const noexcept { return handle_; }
  const at::Tensor& tensor() const noexcept { return tensor_of(handle_); }

  // Returns the slot for a plugin to fill. Releases the previous handle.
  tenon_tensor** out() noexcept {
    release_handle(std::exchange(handle_, nullptr));
    return &handle_;
  }
  // Releases the handle and returns its tensor; undefined if there is none.
  at::Tensor take() noexcept {
    return handle_ != nullptr ? take_handle(std::exchange(handle_, nullptr)) : at::Tensor();
  }
  // Returns the handle, which the caller must release.
  tenon_tensor* release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  tenon_tensor* handle_ = nullptr;
};

// Convert element types. Nothing if the other side has no such type (complex, quantized, ...).
std::optional<at::ScalarType> scalar_type_of(uint32_t dtype) noexcept;
std::optional<uint32_t> dtype_of(at::ScalarType type) noexcept;
// Same, for a tensor.
// Errors  tensor.bad_argument if the ABI has no such type
uint32_t dtype_of(const at::Tensor& tensor);

// Convert devices. The index -1 means the current device on both sides.
// Errors  tensor.bad_argument for a type that the ABI does not have, or an index out of range
at::Device to_torch(tenon_device device);
tenon_device to_abi(at::Device device);

}  // namespace tenon
