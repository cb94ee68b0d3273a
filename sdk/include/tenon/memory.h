/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory, for scratch space of any size. Batches and tensors bring their own (dataset.h,
 * tensor.h). */
#ifndef TENON_MEMORY_H
#define TENON_MEMORY_H

#include "host.h"
#include "status.h"

TENON_C_BEGIN

#define TENON_MEMORY_ID "tenon.memory/1"

typedef struct tenon_memory_api {
  size_t struct_size;
  /* Allocates `bytes` on a 64-byte boundary; the content is undefined. Zero bytes give null.
   * Errors  TENON_OUT_OF_MEMORY, which states the size asked for
   * Threads [any]  Owner the caller, who gives it back with `release`  Since 0.1 */
  tenon_status* (*allocate)(const tenon_host* host, size_t bytes, void** out_own);
  /* Threads [any]  Owner takes what `allocate` gave; null is allowed */
  void (*release)(void* memory_own);
} tenon_memory_api;

TENON_SEAL(tenon_memory_api, release);

TENON_C_END
#endif
