/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as opaque handles. A handle has the representation of libtorch's own C handle, a
 * heap-allocated `at::Tensor`: a plugin of the torch lane reads through it with a cast
 * (tenon/torch/tensor.hpp), any other uses the functions here, `call_op` (op.h) and DLPack. Handles
 * are made and released by this service alone, in every lane. */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include "host.h"
#include "status.h"

TENON_C_BEGIN

typedef struct tenon_tensor tenon_tensor;
struct DLManagedTensorVersioned; /* of <dlpack/dlpack.h>, which this header does not include */

/* Numbers are those of libtorch's ScalarType, which are stable. */
enum {
  TENON_U8 = 0,
  TENON_I8 = 1,
  TENON_I16 = 2,
  TENON_I32 = 3,
  TENON_I64 = 4,
  TENON_F16 = 5,
  TENON_F32 = 6,
  TENON_F64 = 7,
  TENON_BOOL = 11,
  TENON_BF16 = 15,
  TENON_F8_E5M2 = 23,
  TENON_F8_E4M3 = 24
};

/* Numbers are those of libtorch's DeviceType. */
enum { TENON_CPU = 0, TENON_CUDA = 1, TENON_META = 14 };

typedef struct tenon_device {
  int32_t type;
  int32_t index; /* -1: the current one */
} tenon_device;

/* A view of a tensor's metadata. Pointers are borrowed from the tensor. */
typedef struct tenon_tensor_info {
  size_t struct_size; /* set by the caller */
  uint32_t dtype;
  uint32_t ndim;
  tenon_device device;
  const int64_t* shape_ref;   /* [ndim] */
  const int64_t* strides_ref; /* [ndim], in elements */
  int64_t numel;
  void* data; /* of the first element; null for empty and meta tensors. In device memory if device
                 is */
  uint32_t is_contiguous; /* row-major without gaps */
  uint32_t requires_grad;
} tenon_tensor_info;
TENON_SEAL(tenon_tensor_info, requires_grad);

#define TENON_TENSOR_ID "tenon.tensor/1"

/* All: Threads [any]. Since 0.1. */
typedef struct tenon_tensor_api {
  size_t struct_size;

  /* Fills *out.  Errors TENON_INVALID on null. */
  tenon_status* (*info)(const tenon_tensor* tensor, tenon_tensor_info* out);

  /* A new contiguous tensor with undefined content.
   * Errors  TENON_INVALID for a negative size or an unknown dtype; TENON_OUT_OF_MEMORY
   * Owner   the caller releases *out_own */
  tenon_status* (*empty)(const tenon_host* host,
                         uint32_t dtype,
                         tenon_device device,
                         uint32_t ndim,
                         const int64_t* shape,
                         tenon_tensor** out_own);
  /* The same, filled with `value`. ndim 0 makes a scalar. */
  tenon_status* (*full)(const tenon_host* host,
                        uint32_t dtype,
                        tenon_device device,
                        uint32_t ndim,
                        const int64_t* shape,
                        double value,
                        tenon_tensor** out_own);

  /* Another handle of the same tensor (same storage, same autograd history). */
  tenon_status* (*retain)(const tenon_host* host,
                          const tenon_tensor* tensor,
                          tenon_tensor** out_own);
  /* Null is allowed. */
  void (*release)(tenon_tensor* tensor_own);

  /* Reads the one element of a tensor. Waits for the device when the tensor is not on the CPU. */
  tenon_status* (*item)(const tenon_host* host, const tenon_tensor* tensor, double* out);

  /* DLPack 1.x. `from_dlpack` takes the struct over on success and calls its deleter when the last
   * user is gone; `to_dlpack` hands out one whose deleter the caller must call. Data is shared, not
   * copied. */
  tenon_status* (*from_dlpack)(const tenon_host* host,
                               struct DLManagedTensorVersioned* managed_own,
                               tenon_tensor** out_own);
  tenon_status* (*to_dlpack)(const tenon_host* host,
                             const tenon_tensor* tensor,
                             struct DLManagedTensorVersioned** out_own);
} tenon_tensor_api;

TENON_SEAL(tenon_tensor_api, to_dlpack);
TENON_SLOT(tenon_tensor_api, info, 0);
TENON_SLOT(tenon_tensor_api, to_dlpack, 7);

TENON_C_END
#endif
