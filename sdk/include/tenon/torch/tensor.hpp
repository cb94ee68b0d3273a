// SPDX-License-Identifier: Apache-2.0
//
// at::Tensor at the boundary. A handle is a heap-allocated at::Tensor of the host's: it is read by
// a cast, and made and released by the host's tensor service alone, never by new and delete here.
#ifndef TENON_TORCH_TENSOR_HPP
#define TENON_TORCH_TENSOR_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/tensor.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenon {

/* The tensor behind a handle that is not null. Borrowed as the handle is. */
inline const at::Tensor& unwrap(const tenon_tensor* handle) {
  TENON_CHECK(handle != nullptr, "the tensor is absent");
  return *reinterpret_cast<const at::Tensor*>(handle);
}
/* The same, to be changed in place where a call says so. */
inline at::Tensor& unwrap_mutable(tenon_tensor* handle) {
  TENON_CHECK(handle != nullptr, "the tensor is absent");
  return *reinterpret_cast<at::Tensor*>(handle);
}

/* A tensor as a handle to be read during a call; valid as long as `tensor` itself. */
inline const tenon_tensor* borrow(const at::Tensor& tensor) {
  return reinterpret_cast<const tenon_tensor*>(&tensor);
}

/* A new handle of a tensor, with its autograd history; null for an undefined one.
 * Owner  the caller, who hands it to the host as an `_own` */
inline tenon_tensor* wrap(const Host& host, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return nullptr;
  }
  tenon_tensor* out = nullptr;
  host.check(host.tensors().retain(host.get(), borrow(tensor), &out));
  return out;
}

/* A figure of the next record from scalars that may still be computed on a device: sum / weight
 * over the steps since the last one.  Threads [step] */
inline void add_metric(const Host& host,
                       const char* name,
                       const at::Tensor& sum,
                       const at::Tensor& weight) {
  host.check(host.metrics().add_tensor(host.get(), name, borrow(sum), borrow(weight)));
}

/* Numbers are libtorch's own. */
inline at::ScalarType scalar_type(uint32_t dtype) {
  return static_cast<at::ScalarType>(dtype);
}
inline uint32_t dtype_of(const at::Tensor& tensor) {
  return static_cast<uint32_t>(tensor.scalar_type());
}
inline at::Device device_of(tenon_device device) {
  return {static_cast<at::DeviceType>(device.type), static_cast<at::DeviceIndex>(device.index)};
}

/* Runs `body`; what libtorch throws becomes an Error without its C++ backtrace.
 * Errors  TENON_OUT_OF_MEMORY, TENON_INVALID (libtorch does not say whose fault a failed check is)
 */
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

/* Borrowed tensors of a call, in the order that `describe` gave. */
class TorchInputs {
 public:
  TorchInputs(const tenon_tensor* const* handles, size_t size) : handles_(handles), size_(size) {}
  size_t size() const { return size_; }
  /* False for an optional one that is absent. */
  bool has(size_t i) const { return i < size_ && handles_[i] != nullptr; }
  const at::Tensor& operator[](size_t i) const {
    TENON_CHECK(has(i), "tensor number ", i, " of ", size_, " is absent");
    return *reinterpret_cast<const at::Tensor*>(handles_[i]);
  }

 private:
  const tenon_tensor* const* handles_;
  size_t size_;
};

}  // namespace tenon

#endif
