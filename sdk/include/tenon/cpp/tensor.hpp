// SPDX-License-Identifier: Apache-2.0
//
// Tensors without libtorch: TensorRef borrows, Tensor owns. Data is accessible by pointer on the
// CPU only; use operators (op.hpp) for everything else.
#ifndef TENON_CPP_TENSOR_HPP
#define TENON_CPP_TENSOR_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/services.hpp>
#include <tenon/tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* The dtype of a C++ type; undefined for types without a dtype. */
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<uint8_t> {
  static constexpr uint32_t kValue = TENON_U8;
};
template <>
struct DtypeOf<int8_t> {
  static constexpr uint32_t kValue = TENON_I8;
};
template <>
struct DtypeOf<int16_t> {
  static constexpr uint32_t kValue = TENON_I16;
};
template <>
struct DtypeOf<int32_t> {
  static constexpr uint32_t kValue = TENON_I32;
};
template <>
struct DtypeOf<int64_t> {
  static constexpr uint32_t kValue = TENON_I64;
};
template <>
struct DtypeOf<float> {
  static constexpr uint32_t kValue = TENON_F32;
};
template <>
struct DtypeOf<double> {
  static constexpr uint32_t kValue = TENON_F64;
};
template <>
struct DtypeOf<bool> {
  static constexpr uint32_t kValue = TENON_BOOL;
};

/* Returns the name of a dtype, for example "f32"; "dtype 99" for an unknown number. */
inline std::string dtype_name(uint32_t dtype) {
  switch (dtype) {
    case TENON_U8:
      return "u8";
    case TENON_I8:
      return "i8";
    case TENON_I16:
      return "i16";
    case TENON_I32:
      return "i32";
    case TENON_I64:
      return "i64";
    case TENON_F16:
      return "f16";
    case TENON_F32:
      return "f32";
    case TENON_F64:
      return "f64";
    case TENON_BOOL:
      return "bool";
    case TENON_BF16:
      return "bf16";
    case TENON_F8_E5M2:
      return "f8_e5m2";
    case TENON_F8_E4M3:
      return "f8_e4m3";
    default:
      return "dtype " + std::to_string(dtype);
  }
}

/* Sizes or strides, borrowed from a tensor. */
class Shape {
 public:
  Shape(const int64_t* data, size_t size) : data_(data), size_(size) {}
  const int64_t* data() const { return data_; }
  size_t size() const { return size_; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t operator[](size_t i) const { return data_[i]; }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }
  /* Formatted as "[2, 3]". */
  std::string text() const {
    std::string out = "[";
    for (size_t i = 0; i < size_; ++i) {
      out += (i == 0 ? "" : ", ") + std::to_string(data_[i]);
    }
    return out + "]";
  }

 private:
  const int64_t* data_;
  size_t size_;
};

/* A borrowed tensor with its metadata; absent (null) for an optional input that is not provided. An
 * absent tensor has no axes and no elements.
 *
 * Threads  [any]
 * Owner    valid as long as the handle */
class TensorRef {
 public:
  TensorRef() = default;
  TensorRef(const Host& host, const tenon_tensor* handle)
      : host_(host.get()), api_(&host.tensors()), handle_(handle) {
    if (handle != nullptr) {
      info_.struct_size = sizeof(info_);
      host.check(api_->info(handle, &info_));
    }
  }

  explicit operator bool() const { return handle_ != nullptr; }
  const tenon_tensor* handle() const { return handle_; }

  uint32_t dtype() const { return info_.dtype; }
  size_t ndim() const { return info_.ndim; }
  int64_t numel() const { return info_.numel; }
  Shape shape() const { return {info_.shape_ref, info_.ndim}; }
  /* In elements, not bytes; borrowed, as `shape`, from the tensor. */
  Shape strides() const { return {info_.strides_ref, info_.ndim}; }
  tenon_device device() const { return info_.device; }
  bool is_contiguous() const { return info_.is_contiguous != 0; }
  bool requires_grad() const { return info_.requires_grad != 0; }

  /* Size of an axis; negative axes count from the end.
   *
   * Errors   TENON_INVALID if there is no such axis */
  int64_t size(int64_t axis) const {
    const auto n = static_cast<int64_t>(info_.ndim);
    const int64_t i = axis < 0 ? axis + n : axis;
    TENON_CHECK(i >= 0 && i < n, "a tensor of shape ", shape().text(), " has no axis ", axis);
    return info_.shape_ref[i];
  }

  /* Returns the elements in row-major order.
   *
   * Errors   TENON_INVALID if the tensor is absent, has another dtype, or is not contiguous on the
   *          CPU */
  template <class T>
  const T* data() const {
    check_data(DtypeOf<T>::kValue);
    return static_cast<const T*>(info_.data);
  }
  /* Returns the elements for writing. Use it only if the call's contract says that the tensor is
   * updated in place.
   *
   * Errors   as for `data` */
  template <class T>
  T* mutable_data() const {
    check_data(DtypeOf<T>::kValue);
    return static_cast<T*>(info_.data);
  }

  /* Reads the only element. It waits for the device.
   *
   * Errors   TENON_INVALID if the tensor is absent or does not have exactly one element */
  double item() const {
    TENON_CHECK(handle_ != nullptr, "the tensor is absent");
    double out = 0;
    check(host_, api_->item(host_, handle_, &out));
    return out;
  }

 private:
  void check_data(uint32_t dtype) const {
    TENON_CHECK(handle_ != nullptr, "the tensor is absent");
    TENON_CHECK(info_.dtype == dtype,
                "the tensor is ",
                dtype_name(info_.dtype),
                " (expected ",
                dtype_name(dtype),
                ")");
    TENON_CHECK(info_.device.type == TENON_CPU, "the tensor is not on the CPU");
    TENON_CHECK(info_.is_contiguous != 0,
                "the tensor of shape ",
                shape().text(),
                " is not contiguous; call aten::contiguous first");
  }

  const tenon_host* host_ = nullptr;
  const tenon_tensor_api* api_ = nullptr;
  const tenon_tensor* handle_ = nullptr;
  tenon_tensor_info info_{};
};

/* An owned tensor handle. The host must outlive it: use the component's or exec's.
 *
 * Threads  [any] */
class Tensor {
 public:
  Tensor() = default;
  /* Takes ownership of the handle. */
  Tensor(const Host& host, tenon_tensor* handle_own) : host_(host), handle_(handle_own) {}
  Tensor(Tensor&& other) noexcept
      : host_(other.host_), handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      reset();
      host_ = other.host_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { reset(); }

  /* Creates a contiguous tensor with undefined content.
   *
   * Errors   TENON_INVALID for a negative size or an unknown dtype, TENON_OUT_OF_MEMORY */
  static Tensor empty(const Host& host,
                      uint32_t dtype,
                      tenon_device device,
                      const std::vector<int64_t>& shape) {
    tenon_tensor* handle = nullptr;
    host.check(host.tensors().empty(
        host.get(), dtype, device, static_cast<uint32_t>(shape.size()), shape.data(), &handle));
    return {host, handle};
  }
  /* Creates a contiguous tensor filled with `value`.
   *
   * Errors   as for `empty` */
  static Tensor full(const Host& host,
                     uint32_t dtype,
                     tenon_device device,
                     const std::vector<int64_t>& shape,
                     double value) {
    tenon_tensor* handle = nullptr;
    host.check(host.tensors().full(host.get(),
                                   dtype,
                                   device,
                                   static_cast<uint32_t>(shape.size()),
                                   shape.data(),
                                   value,
                                   &handle));
    return {host, handle};
  }
  /* Creates a tensor without axes. */
  static Tensor scalar(const Host& host, uint32_t dtype, tenon_device device, double value) {
    return full(host, dtype, device, {}, value);
  }
  /* Creates another handle of a borrowed tensor. */
  static Tensor retain(const Host& host, const tenon_tensor* tensor) {
    tenon_tensor* handle = nullptr;
    host.check(host.tensors().retain(host.get(), tensor, &handle));
    return {host, handle};
  }

  explicit operator bool() const { return handle_ != nullptr; }
  const tenon_tensor* handle() const { return handle_; }
  /* Returns metadata and data; valid as long as this object. */
  TensorRef ref() const { return {host_, handle_}; }
  const Host& host() const { return host_; }

  /* Releases ownership and returns the handle, to pass it on as an `_own`. */
  [[nodiscard]] tenon_tensor* release() { return std::exchange(handle_, nullptr); }
  void reset() noexcept {
    if (handle_ != nullptr) {
      host_.tensors().release(std::exchange(handle_, nullptr));
    }
  }

 private:
  Host host_;
  tenon_tensor* handle_ = nullptr;
};

/* Borrowed input tensors of a call, in declaration order.
 *
 * Errors   TENON_INVALID for an index out of range
 * Owner    borrowed until the call returns */
class TensorList {
 public:
  TensorList(const Host& host, const tenon_tensor* const* handles, size_t size)
      : host_(&host), handles_(handles), size_(size) {}
  size_t size() const { return size_; }
  const tenon_tensor* const* handles() const { return handles_; }
  /* False for an optional input that is absent. */
  bool has(size_t i) const { return i < size_ && handles_[i] != nullptr; }
  const tenon_tensor* handle(size_t i) const {
    TENON_CHECK(
        i < size_, "tensor index ", i, " is out of range (the call has ", size_, " tensors)");
    return handles_[i];
  }
  TensorRef operator[](size_t i) const { return {*host_, handle(i)}; }

 private:
  const Host* host_;
  const tenon_tensor* const* handles_;
  size_t size_;
};

TENON_NAMESPACE_END

#endif
