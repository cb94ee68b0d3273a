// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/tensor_service.hpp"

#include "host/tensor/dtype.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/not_null.hpp"
#include "host/tensor/service_misuse.hpp"
#include "host/tensor/sized_struct.hpp"
#include "host/tensor/torch_guard.hpp"
#include "host/text/formatted.hpp"

#include <ATen/DLConvertor.h>
#include <ATen/Functions.h>
#include <ATen/dlpack.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <string>

namespace tenon {

constinit thread_local const char* service_misuse = nullptr;

namespace {

constexpr const char* kBadArgument = "tensor.bad_argument";

[[noreturn]] void refuse(const std::string& message) {
  throw Error(kBadArgument, message);
}

const at::Tensor& defined(const tenon_tensor* tensor) {
  not_null(tensor, "tensor");
  if (!tensor_of(tensor).defined()) {
    refuse("the handle holds no tensor");
  }
  return tensor_of(tensor);
}

at::IntArrayRef shape_of(uint32_t ndim, const int64_t* shape) {
  if (ndim > 0) {
    not_null(shape, "shape");
  }
  for (uint32_t axis = 0; axis < ndim; ++axis) {
    if (shape[axis] < 0) {
      refuse(formatted("axis {} has the negative size {}", axis, shape[axis]));
    }
  }
  return {shape, ndim};
}

at::TensorOptions options_of(uint32_t dtype, tenon_device device) {
  const std::optional<at::ScalarType> type = scalar_type_of(dtype);
  if (!type) {
    refuse(formatted("{} is not a dtype of tenon/tensor.h", dtype));
  }
  return at::TensorOptions().dtype(*type).device(to_torch(device));
}

tenon_status* info(const tenon_tensor* tensor, tenon_tensor_info* out) {
  return torch_guard(nullptr, "info: ", [&] {
    const at::Tensor& t = defined(tensor);
    not_null(out, "out");
    const at::IntArrayRef sizes = t.sizes();
    write_sized(*out,
                {.struct_size = sizeof(tenon_tensor_info),
                 .dtype = dtype_of(t),
                 .ndim = static_cast<uint32_t>(sizes.size()),
                 .device = to_abi(t.device()),
                 .shape_ref = sizes.data(),
                 .strides_ref = t.strides().data(),
                 .numel = t.numel(),
                 .data = t.is_meta() || t.numel() == 0 ? nullptr : t.data_ptr(),
                 .is_contiguous = t.is_contiguous() ? 1U : 0U,
                 .requires_grad = t.requires_grad() ? 1U : 0U});
  });
}

tenon_status* empty(const tenon_host* host,
                    uint32_t dtype,
                    tenon_device device,
                    uint32_t ndim,
                    const int64_t* shape,
                    tenon_tensor** out_own) {
  return torch_guard(host, "empty: ", [&] {
    not_null(out_own, "out_own");
    *out_own = new_handle(at::empty(shape_of(ndim, shape), options_of(dtype, device)), host);
  });
}

tenon_status* full(const tenon_host* host,
                   uint32_t dtype,
                   tenon_device device,
                   uint32_t ndim,
                   const int64_t* shape,
                   double value,
                   tenon_tensor** out_own) {
  return torch_guard(host, "full: ", [&] {
    not_null(out_own, "out_own");
    *out_own = new_handle(at::full(shape_of(ndim, shape), value, options_of(dtype, device)), host);
  });
}

tenon_status* retain(const tenon_host* host, const tenon_tensor* tensor, tenon_tensor** out_own) {
  return torch_guard(host, "retain: ", [&] {
    not_null(out_own, "out_own");
    *out_own = new_handle(defined(tensor), host);
  });
}

// A wrong handle is left alone: it may be one that the host still uses.
void release(tenon_tensor* tensor_own) {
  if (tensor_own == nullptr) {
    return;
  }
  if (const char* const problem = handle_problem(tensor_own)) {
    service_misuse = problem;
    return;
  }
  release_handle(tensor_own);
}

tenon_status* item(const tenon_host* host, const tenon_tensor* tensor, double* out) {
  return torch_guard(host, "item: ", [&] {
    const at::Tensor& t = defined(tensor);
    not_null(out, "out");
    if (t.numel() != 1) {
      refuse(formatted("item requires a tensor of one element, found {}", t.numel()));
    }
    *out = t.item().toDouble();
  });
}

// libtorch checks some of this itself, but partly after it has taken over the deleter. A failure
// would then call the deleter, although the caller still owns the tensor.
void check_dlpack(const DLManagedTensorVersioned& managed) {
  if (managed.version.major != DLPACK_MAJOR_VERSION) {
    refuse(formatted("DLPack {}.{} is not version {} of the format",
                     managed.version.major,
                     managed.version.minor,
                     DLPACK_MAJOR_VERSION));
  }
  const DLTensor& t = managed.dl_tensor;
  if (t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr)) {
    refuse("the DLPack tensor has no shape");
  }
  int64_t numel = 1;
  for (int32_t axis = 0; axis < t.ndim; ++axis) {
    if (t.shape[axis] < 0 || __builtin_mul_overflow(numel, t.shape[axis], &numel)) {
      refuse(formatted("axis {} of the DLPack tensor has the size {}", axis, t.shape[axis]));
    }
    if (t.strides != nullptr && t.strides[axis] < 0) {
      refuse(formatted("axis {} of the DLPack tensor has a negative stride", axis));
    }
  }
  if (t.data == nullptr && numel > 0) {
    refuse("the DLPack tensor has elements but no data");
  }
  if (!dtype_of(at::toScalarType(t.dtype))) {
    refuse("the DLPack tensor has an element type that tenon/tensor.h lacks");
  }
  if (t.device.device_type != kDLCPU && t.device.device_type != kDLCUDA) {
    refuse("the DLPack tensor is on a device that is neither CPU nor CUDA");
  }
}

// The data is used in the order of the current stream, which is exec's during a call.
tenon_status* from_dlpack(const tenon_host* host,
                          const tenon_exec* /*exec*/,
                          DLManagedTensorVersioned* managed_own,
                          tenon_tensor** out_own) {
  return torch_guard(host, "from_dlpack: ", [&] {
    not_null(out_own, "out_own");
    check_dlpack(not_null(managed_own, "managed_own"));
    *out_own = new_handle(at::fromDLPackVersioned(managed_own), host);
  });
}

tenon_status* to_dlpack(const tenon_host* host,
                        const tenon_exec* exec,
                        const tenon_tensor* tensor,
                        DLManagedTensorVersioned** out_own) {
  return torch_guard(host, "to_dlpack: ", [&] {
    not_null(out_own, "out_own");
    const at::Tensor& t = defined(tensor);
    static_cast<void>(dtype_of(t));
    if (exec == nullptr && t.is_cuda()) {
      c10::impl::VirtualGuardImpl(c10::kCUDA).synchronizeDevice(t.device().index());
    }
    // DLPack does not support autograd: the receiver sees only the values.
    *out_own = at::toDLPackVersioned(t.detach());
  });
}

constinit std::atomic<const tenon_tensor_api*> tensor_replacement = nullptr;  // of the whole table

}  // namespace

void replace_tensor_service(const tenon_tensor_api* table) noexcept {
  tensor_replacement.store(table, std::memory_order_release);
}

const tenon_tensor_api* tensor_service() noexcept {
  static constexpr tenon_tensor_api kApi = {
      .struct_size = sizeof(tenon_tensor_api),
      .info = info,
      .empty = empty,
      .full = full,
      .retain = retain,
      .release = release,
      .item = item,
      .from_dlpack = from_dlpack,
      .to_dlpack = to_dlpack,
  };
  const tenon_tensor_api* const other = tensor_replacement.load(std::memory_order_acquire);
  return other != nullptr ? other : &kApi;
}

}  // namespace tenon
