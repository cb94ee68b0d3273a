/* SPDX-License-Identifier: Apache-2.0
 *
 * How a component's state gets into a checkpoint and back: a tree of named entries. Any component
 * may offer it
 * (`get_extension(self, TENON_STATEFUL_ID)`). What a component does not declare here is lost on
 * resume.
 *
 * `snapshot` is cheap and does no I/O: it is called between two steps; the host serialises what it
 * was handed later, on another thread. Tensors handed over must therefore not be changed in place
 * afterwards, unless they are marked TENON_STATE_COPY, and then the host copies them at once. */
#ifndef TENON_STATE_H
#define TENON_STATE_H

#include "tensor.h"

TENON_C_BEGIN

/* Scope: what becomes of an entry when the number of ranks changes. */
enum {
  TENON_STATE_REPLICATED = 0, /* equal on all ranks */
  TENON_STATE_PER_SHARD = 1,  /* by data shard (dataset.h) */
  TENON_STATE_PER_RANK = 2    /* dropped, with a warning, when ranks change */
};
enum { TENON_STATE_COPY = 1u << 0 };

typedef struct tenon_state_writer tenon_state_writer;
struct tenon_state_writer {
  size_t struct_size;
  void* impl;
  /* Names are "a/b/c" of [a-z0-9_.-]; a name twice is TENON_INVALID. Bytes: at most 1 MiB, copied.
   */
  tenon_status* (*put_int)(tenon_state_writer* writer,
                           const char* name,
                           int64_t value,
                           uint32_t scope);
  tenon_status* (*put_double)(tenon_state_writer* writer,
                              const char* name,
                              double value,
                              uint32_t scope);
  tenon_status* (*put_bytes)(
      tenon_state_writer* writer, const char* name, const void* data, size_t size, uint32_t scope);
  tenon_status* (*put_tensor)(tenon_state_writer* writer,
                              const char* name,
                              const tenon_tensor* tensor,
                              uint32_t scope,
                              uint32_t flags);
};
TENON_SEAL(tenon_state_writer, put_tensor);

typedef struct tenon_state_reader tenon_state_reader;
struct tenon_state_reader {
  size_t struct_size;
  void* impl;
  uint32_t version; /* that the writer's `version` gave */
  uint32_t reserved;
  /* Errors TENON_NOT_FOUND, TENON_INVALID for another type. Borrowed until `load` returns. */
  tenon_status* (*get_int)(tenon_state_reader* reader, const char* name, int64_t* out);
  tenon_status* (*get_double)(tenon_state_reader* reader, const char* name, double* out);
  tenon_status* (*get_bytes)(tenon_state_reader* reader,
                             const char* name,
                             const void** out_ref,
                             size_t* out_size);
  tenon_status* (*get_tensor)(tenon_state_reader* reader,
                              const char* name,
                              const tenon_tensor** out_ref);
};
TENON_SEAL(tenon_state_reader, get_tensor);

#define TENON_STATEFUL_ID "tenon.stateful/1"

typedef struct tenon_stateful {
  size_t struct_size;
  /* Version of the entries that `snapshot` writes.  Threads [any] */
  uint32_t (*version)(void* self);
  /* Threads [step], between steps  Since 0.1 */
  tenon_status* (*snapshot)(void* self, tenon_state_writer* writer);
  /* May refuse a version, with the reason. On error the instance is destroyed.
   * Threads [main]  Since 0.1 */
  tenon_status* (*load)(void* self, tenon_state_reader* reader);
} tenon_stateful;
TENON_SEAL(tenon_stateful, load);

TENON_C_END
#endif
