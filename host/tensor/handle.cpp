// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/handle.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/handle_pool.hpp"
#include "host/text/formatted.hpp"

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <limits>
#include <string>
#include <utility>

namespace tenon {
namespace {

// The ABI uses libtorch's numbers, which are stable. If a release renumbers them, these checks
// fail.
template <class Enum>
constexpr bool is_number(Enum value, uint32_t number) {
  return static_cast<uint32_t>(value) == number;
}
static_assert(is_number(at::kByte, TENON_U8));
static_assert(is_number(at::kChar, TENON_I8));
static_assert(is_number(at::kShort, TENON_I16));
static_assert(is_number(at::kInt, TENON_I32));
static_assert(is_number(at::kLong, TENON_I64));
static_assert(is_number(at::kHalf, TENON_F16));
static_assert(is_number(at::kFloat, TENON_F32));
static_assert(is_number(at::kDouble, TENON_F64));
static_assert(is_number(at::kBool, TENON_BOOL));
static_assert(is_number(at::kBFloat16, TENON_BF16));
static_assert(is_number(at::kFloat8_e5m2, TENON_F8_E5M2));
static_assert(is_number(at::kFloat8_e4m3fn, TENON_F8_E4M3));
static_assert(is_number(at::kCPU, TENON_CPU));
static_assert(is_number(at::kCUDA, TENON_CUDA));
static_assert(is_number(at::kMeta, TENON_META));

}  // namespace

tenon_tensor* new_handle(at::Tensor tensor, const tenon_host* holder) {
  TENON_ASSERT(tensor.defined(), "a handle of an undefined tensor");
  return HandlePool::get().add(std::move(tensor), holder);
}

at::Tensor take_handle(tenon_tensor* handle_own) noexcept {
  return HandlePool::get().remove(handle_own);
}

void release_handle(tenon_tensor* handle_own) noexcept {
  if (handle_own != nullptr) {
    HandlePool::get().remove(handle_own);
  }
}

void release_if_handle(tenon_tensor* slot) noexcept {
  if (slot != nullptr && handle_problem(slot) == nullptr) {
    release_handle(slot);
  }
}

const char* handle_problem(const tenon_tensor* handle_own) noexcept {
  return HandlePool::get().problem(handle_own);
}

std::optional<at::ScalarType> scalar_type_of(uint32_t dtype) noexcept {
  return is_dtype(dtype) ? std::optional(static_cast<at::ScalarType>(dtype)) : std::nullopt;
}

std::optional<uint32_t> dtype_of(at::ScalarType type) noexcept {
  const auto dtype = static_cast<uint32_t>(type);
  return is_dtype(dtype) ? std::optional(dtype) : std::nullopt;
}

uint32_t dtype_of(const at::Tensor& tensor) {
  const std::optional<uint32_t> dtype = dtype_of(tensor.scalar_type());
  if (!dtype) {
    throw Error("tensor.bad_argument",
                std::string("a tensor of ") + c10::toString(tensor.scalar_type()) +
                    " cannot be passed to a plugin; convert it to a dtype of tenon/tensor.h");
  }
  return *dtype;
}

at::Device to_torch(tenon_device device) {
  if (device.type != TENON_CPU && device.type != TENON_CUDA && device.type != TENON_META) {
    throw Error(
        "tensor.bad_argument",
        formatted("device type {} is not TENON_CPU, TENON_CUDA or TENON_META", device.type));
  }
  const int32_t highest =
      device.type == TENON_CUDA ? std::numeric_limits<c10::DeviceIndex>::max() : 0;
  if (device.index < -1 || device.index > highest) {
    throw Error("tensor.bad_argument", formatted("device index {} is out of range", device.index));
  }
  return {static_cast<c10::DeviceType>(device.type), static_cast<c10::DeviceIndex>(device.index)};
}

tenon_device to_abi(at::Device device) {
  const tenon_device result = {static_cast<int32_t>(device.type()), device.index()};
  static_cast<void>(to_torch(result));
  return result;
}

}  // namespace tenon
