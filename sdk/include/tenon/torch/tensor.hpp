// SPDX-License-Identifier: Apache-2.0
//
// at::Tensor at the boundary. A handle is a heap-allocated at::Tensor of the host. Plugins read it
// through a cast. Only the host's tensor service creates and releases handles; never use new or
// delete.
#ifndef TENON_TORCH_TENSOR_HPP
#define TENON_TORCH_TENSOR_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/tensor.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <utility>

TENON_NAMESPACE_BEGIN

/* Returns the tensor behind a handle; borrowed, as the handle.
 *
 * Errors   TENON_INVALID if the handle is null */
inline const at::Tensor& unwrap(const tenon_tensor* handle) {
  TENON_CHECK(handle != nullptr, "the tensor is absent");
  return *reinterpret_cast<const at::Tensor*>(handle);
}
/* Returns the tensor for in-place changes, if the call's contract permits them.
 *
 * Errors   TENON_INVALID if the handle is null */
inline at::Tensor& unwrap_mutable(tenon_tensor* handle) {
  TENON_CHECK(handle != nullptr, "the tensor is absent");
  return *reinterpret_cast<at::Tensor*>(handle);
}

/* Returns a borrowed handle of a tensor; valid as long as `tensor` itself. */
inline const tenon_tensor* borrow(const at::Tensor& tensor) {
  return reinterpret_cast<const tenon_tensor*>(&tensor);
}

/* Creates a handle of a tensor, with its autograd history; null for an undefined tensor.
 *
 * Owner    the caller, who passes it to the host as an `_own` */
inline tenon_tensor* wrap(const Host& host, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return nullptr;
  }
  tenon_tensor* out = nullptr;
  host.check(host.tensors().retain(host.get(), borrow(tensor), &out));
  return out;
}

/* Adds a metric to the next record from scalars that may still be computed on a device: sum /
 * weight over the steps since the last record.
 *
 * Errors   TENON_INVALID for an invalid name (metrics.h), or a tensor that is no scalar
 * Threads  [step] */
inline void add_metric(const Host& host,
                       const char* name,
                       const at::Tensor& sum,
                       const at::Tensor& weight) {
  host.check(host.metrics().add_tensor(host.get(), name, borrow(sum), borrow(weight)));
}

/* Conversions of dtypes and devices, whose numbers are those of libtorch. */
inline at::ScalarType scalar_type(uint32_t dtype) {
  return static_cast<at::ScalarType>(dtype);
}
inline uint32_t dtype_of(const at::Tensor& tensor) {
  return static_cast<uint32_t>(tensor.scalar_type());
}
inline at::Device device_of(tenon_device device) {
  return {static_cast<at::DeviceType>(device.type), static_cast<at::DeviceIndex>(device.index)};
}

/* Runs `body` and converts exceptions of libtorch to an Error, without the C++ backtrace.
 *
 * Errors   TENON_OUT_OF_MEMORY; otherwise TENON_INVALID, because libtorch does not report who
 *          caused a failed check */
template <class Body>
auto call_torch(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const c10::OutOfMemoryError& e) {
    throw Error(TENON_OUT_OF_MEMORY, "out_of_memory", e.what_without_backtrace());
  } catch (const c10::Error& e) {
    const char* const what = e.what_without_backtrace();
    if (says_out_of_memory(what)) {
      throw Error(TENON_OUT_OF_MEMORY, "out_of_memory", what);
    }
    throw Error(TENON_INVALID, "libtorch", what);
  }
}

/* Borrowed input tensors of a call, in declaration order.
 *
 * Errors   TENON_INVALID for an absent tensor or an index out of range
 * Owner    borrowed until the call returns */
class TorchInputs {
 public:
  TorchInputs(const tenon_tensor* const* handles, size_t size) : handles_(handles), size_(size) {}
  size_t size() const { return size_; }
  /* False for an optional input that is absent. */
  bool has(size_t i) const { return i < size_ && handles_[i] != nullptr; }
  const at::Tensor& operator[](size_t i) const {
    TENON_CHECK(has(i), "tensor ", i, " of ", size_, " is absent");
    return *reinterpret_cast<const at::Tensor*>(handles_[i]);
  }

 private:
  const tenon_tensor* const* handles_;
  size_t size_;
};

TENON_NAMESPACE_END

#endif
