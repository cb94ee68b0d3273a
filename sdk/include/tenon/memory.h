/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates host memory for scratch space. Batches and tensors have their own allocators
 * (dataset.h, tensor.h). */
#ifndef TENON_MEMORY_H
#define TENON_MEMORY_H

#include "host.h"
#include "status.h"

TENON_C_BEGIN

#define TENON_MEMORY_ID "tenon.memory/1"

/* Service TENON_MEMORY_ID. */
typedef struct tenon_memory_api {
  size_t struct_size;
  /* Allocates `bytes` bytes, aligned to 64 bytes, with undefined content. Zero bytes give null.
   *
   * Errors   TENON_OUT_OF_MEMORY, with the requested size
   * Threads  [any]
   * Owner    the caller, who frees it with `release`
   * Since    0.1 */
  tenon_status* (*allocate)(const tenon_host* host, size_t bytes, void** out_own);
  /* Frees memory from `allocate`. Null is allowed.
   *
   * Threads  [any]
   * Owner    takes `memory_own`
   * Since    0.1 */
  void (*release)(void* memory_own);
} tenon_memory_api;

TENON_SEAL(tenon_memory_api, release);

TENON_C_END
#endif
