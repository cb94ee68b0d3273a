// SPDX-License-Identifier: Apache-2.0
//
// Tensors of libtorch's stable ABI at the boundary, for plugins of lane `stable`: the argument
// STABLE_TORCH of tenon_add_plugin(). This header needs no C++ symbol of libtorch, so one binary
// runs with all libtorch releases from 2.11 on.
//
// A tenon_tensor and an AtenTensorHandle have the same representation, but different owners. The
// host alone releases a tenon_tensor. A torch::stable::Tensor deletes its own handle. So each
// function here that creates a handle creates a second one of the same tensor, with the same
// storage and autograd history. Never construct a torch::stable::Tensor from a handle of the host.
#ifndef TENON_TORCH_STABLE_TENSOR_HPP
#define TENON_TORCH_STABLE_TENSOR_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/tensor.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <utility>

TENON_NAMESPACE_BEGIN

/* Returns a stable tensor for a handle of the host. A later in-place change of either is visible in
 * both.
 *
 * Errors   TENON_INVALID if the handle is null
 * Threads  [any]
 * Owner    the result owns a separate handle, and may outlive `handle`, which stays borrowed */
inline torch::stable::Tensor to_stable(const tenon_tensor* handle) {
  TENON_CHECK(handle != nullptr, "the tensor is absent");
  // The shim takes no pointer to const, and does not change the tensor.
  auto* const same = reinterpret_cast<AtenTensorHandle>(const_cast<tenon_tensor*>(handle));
  AtenTensorHandle own = nullptr;
  TENON_CHECK(aoti_torch_new_tensor_handle(same, &own) == TORCH_SUCCESS,
              "libtorch cannot create another handle of the tensor");
  return torch::stable::Tensor(own);
}

/* Returns the handle of a stable tensor, to pass it to functions of the host, for example as an
 * argument of `call_op`.
 *
 * Threads  [any]
 * Owner    borrowed from `tensor`; valid as long as a copy of `tensor` exists. Never pass it on as
 *          an `_own` */
inline const tenon_tensor* borrow(const torch::stable::Tensor& tensor) {
  return reinterpret_cast<const tenon_tensor*>(tensor.get());
}

/* Creates a handle of the host for a stable tensor; null for an undefined tensor.
 *
 * Threads  [any]
 * Owner    the caller, who passes it to the host as an `_own`; `tensor` keeps its own handle */
inline tenon_tensor* wrap(const Host& host, const torch::stable::Tensor& tensor) {
  if (!tensor.defined()) {
    return nullptr;
  }
  tenon_tensor* out = nullptr;
  host.check(host.tensors().retain(host.get(), borrow(tensor), &out));
  return out;
}

/* Calls an operator that returns one tensor through the host: for operators that the stable ABI
 * lacks, and for those with an argument of type Scalar, which its dispatcher rejects. Pass tensors
 * with `borrow`. Autograd records the call as it records stable operators.
 *
 * Errors   those of `call_op`: the message of the operator
 * Threads  [step], [worker]
 * Owner    arguments are borrowed; the result owns a separate handle */
inline torch::stable::Tensor stable_op(const Host& host,
                                       const char* name,
                                       std::initializer_list<Arg> args) {
  return to_stable(call_op(host, name, args).handle());
}

/* Returns the dtype of a host tensor or a call, TENON_F32 etc., as one of the stable ABI. */
inline torch::headeronly::ScalarType stable_dtype(uint32_t dtype) {
  return static_cast<torch::headeronly::ScalarType>(dtype);
}

/* Runs `body` and converts exceptions of the stable headers to an Error. libtorch writes the
 * message of a failed operator to stderr; the exception names only the function that failed.
 *
 * Errors   TENON_INVALID, because the stable ABI does not report the cause */
template <class Body>
auto call_stable(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::runtime_error& e) {
    throw Error(TENON_INVALID, "libtorch", e.what());
  }
}

/* Borrowed input tensors of a call, in declaration order.
 *
 * Errors   TENON_INVALID for an absent tensor or an index out of range
 * Owner    the handles are borrowed until the call returns; a tensor that `[]` returned may be kept
 */
class StableInputs {
 public:
  StableInputs(const tenon_tensor* const* handles, size_t size) : handles_(handles), size_(size) {}
  size_t size() const { return size_; }
  /* False for an optional input that is absent. */
  bool has(size_t i) const { return i < size_ && handles_[i] != nullptr; }
  torch::stable::Tensor operator[](size_t i) const {
    TENON_CHECK(has(i), "tensor ", i, " of ", size_, " is absent");
    return to_stable(handles_[i]);
  }

 private:
  const tenon_tensor* const* handles_;
  size_t size_;
};

TENON_NAMESPACE_END

#endif
