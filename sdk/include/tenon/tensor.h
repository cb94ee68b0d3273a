/* SPDX-License-Identifier: Apache-2.0
 *
 * Provides tensors as opaque handles. A handle has the representation of libtorch's own C handle: a
 * heap-allocated `at::Tensor`. Plugins of the torch lane access the tensor through a cast
 * (tenon/torch/tensor.hpp). All others use the functions here, `call` of op.h, and DLPack. In every
 * lane, only this service creates and releases handles. */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include "host.h"
#include "status.h"

TENON_C_BEGIN

/* A handle of a tensor. Opaque. */
typedef struct tenon_tensor tenon_tensor;
/* The context of a call (exec.h). */
typedef struct tenon_exec tenon_exec;
/* Declared in <dlpack/dlpack.h>, which this header does not include. */
struct DLManagedTensorVersioned;

/* Dtypes. The numbers are those of libtorch's ScalarType, which are stable. */
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

/* Device types. The numbers are those of libtorch's DeviceType. Meta tensors have a shape but no
 * data. */
enum { TENON_CPU = 0, TENON_CUDA = 1, TENON_META = 14 };

/* A device. */
typedef struct tenon_device {
  int32_t type;  /* TENON_CPU, TENON_CUDA or TENON_META */
  int32_t index; /* -1: the current device */
} tenon_device;

/* A view of a tensor's metadata. Pointers are borrowed from the tensor and valid until its shape
 * changes or its last handle is released. */
typedef struct tenon_tensor_info {
  size_t struct_size;         /* set by the caller */
  uint32_t dtype;             /* TENON_U8 to TENON_F8_E4M3 */
  uint32_t ndim;              /* 0 for a scalar */
  tenon_device device;        /* where the data is */
  const int64_t* shape_ref;   /* [ndim] */
  const int64_t* strides_ref; /* [ndim], in elements, not bytes */
  int64_t numel;              /* number of elements */
  /* The first element, in device memory if `device` is not the CPU; null for empty and meta
   * tensors. */
  void* data;
  uint32_t is_contiguous; /* 1: row-major without gaps */
  uint32_t requires_grad; /* 1: autograd records operations on it */
} tenon_tensor_info;
TENON_SEAL(tenon_tensor_info, requires_grad);

#define TENON_TENSOR_ID "tenon.tensor/1"

/* Service TENON_TENSOR_ID. The tags below hold for every function.
 *
 * Errors   TENON_INVALID for a null argument, also where a comment does not list it
 * Threads  [any]
 * Owner    arguments are borrowed; the caller releases *out_own
 * Since    0.1 */
typedef struct tenon_tensor_api {
  size_t struct_size;

  /* Fills *out.
   *
   * Errors   TENON_INVALID if an argument is null, the handle holds no tensor, or
   *          `out->struct_size` is too small */
  tenon_status* (*info)(const tenon_tensor* tensor, tenon_tensor_info* out);

  /* Creates a contiguous tensor with undefined content. `shape` may be null if ndim is 0.
   *
   * Errors   TENON_INVALID for a negative size or an unknown dtype; TENON_OUT_OF_MEMORY */
  tenon_status* (*empty)(const tenon_host* host,
                         uint32_t dtype,
                         tenon_device device,
                         uint32_t ndim,
                         const int64_t* shape,
                         tenon_tensor** out_own);
  /* Creates a contiguous tensor filled with `value`. With ndim 0 it creates a scalar.
   *
   * Errors   as for `empty` */
  tenon_status* (*full)(const tenon_host* host,
                        uint32_t dtype,
                        tenon_device device,
                        uint32_t ndim,
                        const int64_t* shape,
                        double value,
                        tenon_tensor** out_own);

  /* Creates another handle of the same tensor, with the same storage and autograd history. */
  tenon_status* (*retain)(const tenon_host* host,
                          const tenon_tensor* tensor,
                          tenon_tensor** out_own);
  /* Releases a handle. Null is allowed. */
  void (*release)(tenon_tensor* tensor_own);

  /* Reads the only element of a tensor. If the tensor is not on the CPU, the call waits for the
   * device.
   *
   * Errors   TENON_INVALID if the tensor does not have exactly one element */
  tenon_status* (*item)(const tenon_host* host, const tenon_tensor* tensor, double* out);

  /* Wraps a DLPack 1.x tensor, sharing its data. On success the host owns the struct and calls its
   * deleter when the last user has released the tensor. The data must be ready in the order of
   * exec's stream; without an `exec` (null), it must be ready at once.
   *
   * Errors   TENON_INVALID for another major version, an unsupported dtype, a device other than CPU
   *          and CUDA, or an invalid shape; the struct then still belongs to the caller
   * Owner    takes `managed_own` on success */
  tenon_status* (*from_dlpack)(const tenon_host* host,
                               const tenon_exec* exec,
                               struct DLManagedTensorVersioned* managed_own,
                               tenon_tensor** out_own);
  /* Exports a tensor as DLPack 1.x, sharing its data, without autograd history. The data is ready
   * in the order of exec's stream; without an `exec` (null), the call waits until it is ready.
   *
   * Errors   TENON_INTERNAL if the device failed
   * Owner    the caller, who calls the struct's deleter */
  tenon_status* (*to_dlpack)(const tenon_host* host,
                             const tenon_exec* exec,
                             const tenon_tensor* tensor,
                             struct DLManagedTensorVersioned** out_own);
} tenon_tensor_api;

TENON_SEAL(tenon_tensor_api, to_dlpack);
TENON_SLOT(tenon_tensor_api, info, 0);
TENON_SLOT(tenon_tensor_api, release, 4);
TENON_SLOT(tenon_tensor_api, item, 5);
TENON_SLOT(tenon_tensor_api, from_dlpack, 6);
TENON_SLOT(tenon_tensor_api, to_dlpack, 7);

TENON_C_END
#endif
