// SPDX-License-Identifier: Apache-2.0
//
// Tensors without libtorch: a borrowed one with its metadata, and one that is owned. Data is
// reached by pointer, on the CPU alone; anything else is an operator (op.hpp).
#ifndef TENON_CPP_TENSOR_HPP
#define TENON_CPP_TENSOR_HPP

#include <tenon/cpp/services.hpp>
#include <tenon/tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

/* The dtype of a C++ type; no value for types that no tensor has. */
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

/* "f32"; "dtype 99" for a number without a name. */
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

/* Sizes that belong to someone else. */
class Shape {
 public:
  Shape(const int64_t* data, size_t size) : data_(data), size_(size) {}
  const int64_t* data() const { return data_; }
  size_t size() const { return size_; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t operator[](size_t i) const { return data_[i]; }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }
  /* "[2, 3]" */
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

/* A tensor of someone else's; may be null (an optional input that is absent). Valid as long as the
 * handle. Threads [any] */
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
  Shape strides() const { return {info_.strides_ref, info_.ndim}; }
  tenon_device device() const { return info_.device; }
  bool is_contiguous() const { return info_.is_contiguous != 0; }
  bool requires_grad() const { return info_.requires_grad != 0; }

  /* Size of axis `axis`; negative ones count from the end.  Errors TENON_INVALID if there is none
   */
  int64_t size(int64_t axis) const {
    const auto n = static_cast<int64_t>(info_.ndim);
    const int64_t i = axis < 0 ? axis + n : axis;
    TENON_CHECK(i >= 0 && i < n, "a tensor of shape ", shape().text(), " has no axis ", axis);
    return info_.shape_ref[i];
  }

  /* The elements in row-major order.
   * Errors  TENON_INVALID if the tensor is absent, of another dtype, not contiguous or not on the
   * CPU */
  template <class T>
  const T* data() const {
    check_data(DtypeOf<T>::kValue);
    return static_cast<const T*>(info_.data);
  }
  /* The same, to be written: only where the call says that a tensor is changed in place. */
  template <class T>
  T* mutable_data() const {
    check_data(DtypeOf<T>::kValue);
    return static_cast<T*>(info_.data);
  }

  /* The one element. Waits for the device.  Errors TENON_INVALID unless there is exactly one */
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
                ", wanted is ",
                dtype_name(dtype));
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

/* A tensor handle that is owned here. Its host must outlive it: use that of the component or of
 * `exec`. Threads [any] */
class Tensor {
 public:
  Tensor() = default;
  /* Takes the handle over. */
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

  /* A contiguous tensor with undefined content.  Errors TENON_INVALID, TENON_OUT_OF_MEMORY */
  static Tensor empty(const Host& host,
                      uint32_t dtype,
                      tenon_device device,
                      const std::vector<int64_t>& shape) {
    tenon_tensor* handle = nullptr;
    host.check(host.tensors().empty(
        host.get(), dtype, device, static_cast<uint32_t>(shape.size()), shape.data(), &handle));
    return {host, handle};
  }
  /* The same, filled. */
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
  /* A tensor without axes. */
  static Tensor scalar(const Host& host, uint32_t dtype, tenon_device device, double value) {
    return full(host, dtype, device, {}, value);
  }
  /* Another handle of a borrowed tensor. */
  static Tensor retain(const Host& host, const tenon_tensor* tensor) {
    tenon_tensor* handle = nullptr;
    host.check(host.tensors().retain(host.get(), tensor, &handle));
    return {host, handle};
  }

  explicit operator bool() const { return handle_ != nullptr; }
  const tenon_tensor* handle() const { return handle_; }
  /* Metadata and data; valid as long as this. */
  TensorRef ref() const { return {host_, handle_}; }
  const Host& host() const { return host_; }

  /* Gives the handle up, to be passed on as an `_own`. */
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

/* Borrowed inputs of a call, in the order that `describe` gave. */
class TensorList {
 public:
  TensorList(const Host& host, const tenon_tensor* const* handles, size_t size)
      : host_(&host), handles_(handles), size_(size) {}
  size_t size() const { return size_; }
  const tenon_tensor* const* handles() const { return handles_; }
  /* False for an optional input that is absent. */
  bool has(size_t i) const { return i < size_ && handles_[i] != nullptr; }
  const tenon_tensor* handle(size_t i) const {
    TENON_CHECK(i < size_, "there are ", size_, " tensors, asked for was number ", i);
    return handles_[i];
  }
  TensorRef operator[](size_t i) const { return {*host_, handle(i)}; }

 private:
  const Host* host_;
  const tenon_tensor* const* handles_;
  size_t size_;
};

}  // namespace tenon

#endif
