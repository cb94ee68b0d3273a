// SPDX-License-Identifier: Apache-2.0
//
// Tensor handles: a `tenon_tensor*` is an `at::Tensor*`, as libtorch's own C handle is. What is
// here makes, reads and ends them on the host's side; plugins do the same through
// tensor_service.hpp. Invariants: an owned handle lies on the heap and holds a defined tensor; a
// borrowed one is the address of an at::Tensor of the host's, and is never released.
// Threads: every
// function may be called from any thread; one handle is one object, not locked.

#pragma once

#include <tenon/tensor.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace tenon {

// A new handle of a tensor.
//
// Owner  the caller, who passes it to a plugin as `_own`, or ends it by take_handle or
//        release_handle
[[nodiscard]] tenon_tensor* new_handle(at::Tensor tensor);

// Ends a handle and returns its tensor. The handle must not be null.
[[nodiscard]] at::Tensor take_handle(tenon_tensor* handle_own) noexcept;

// Ends a handle. Null is allowed.
void release_handle(tenon_tensor* handle_own) noexcept;

// The tensor of a handle, owned or borrowed. It must not be null.
inline const at::Tensor& tensor_of(const tenon_tensor* handle) noexcept {
  return *reinterpret_cast<const at::Tensor*>(handle);
}

// A handle that points at `tensor` itself: no allocation, no reference taken.
//
// Owner  valid as long as `tensor` stays where it is; must not be released
inline const tenon_tensor* borrow(const at::Tensor& tensor) noexcept {
  return reinterpret_cast<const tenon_tensor*>(&tensor);
}
// The same where the receiver may change the tensor's values.
inline tenon_tensor* borrow_mutable(at::Tensor& tensor) noexcept {
  return reinterpret_cast<tenon_tensor*>(&tensor);
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

  // The slot for a plugin to fill. What was in it is released.
  tenon_tensor** out() noexcept {
    release_handle(std::exchange(handle_, nullptr));
    return &handle_;
  }
  // Gives the tensor out; undefined if there is none.
  at::Tensor take() noexcept {
    return handle_ != nullptr ? take_handle(std::exchange(handle_, nullptr)) : at::Tensor();
  }
  // Gives the handle out, with the duty to release it.
  tenon_tensor* release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  tenon_tensor* handle_ = nullptr;
};

// Element types. Nothing if the other side has no such type (complex, quantized, ...).
std::optional<at::ScalarType> scalar_type_of(uint32_t dtype) noexcept;
std::optional<uint32_t> dtype_of(at::ScalarType type) noexcept;
// The same for a tensor.
// Errors  tensor.bad_argument if the ABI has no such type
uint32_t dtype_of(const at::Tensor& tensor);

// Devices. The index -1 means the current one on both sides.
// Errors  tensor.bad_argument for a type that the ABI does not have, or an index out of range
at::Device to_torch(tenon_device device);
tenon_device to_abi(at::Device device);

}  // namespace tenon
