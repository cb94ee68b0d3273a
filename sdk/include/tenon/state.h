/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves a component's state in checkpoints, as a tree of named entries. Any component may support
 * it (`get_extension(self, TENON_STATEFUL_ID)`). State that is not saved here is lost on resume.
 *
 * `snapshot` must be cheap and do no I/O: the host calls it between two steps and serializes the
 * entries later, on another thread. Do not change a saved tensor in place afterwards, unless it is
 * marked TENON_STATE_COPY: the host copies such tensors at once. */
#ifndef TENON_STATE_H
#define TENON_STATE_H

#include "tensor.h"

TENON_C_BEGIN

/* Scope of an entry: how it is restored if the number of ranks changes. */
enum {
  TENON_STATE_REPLICATED = 0, /* equal on all ranks */
  TENON_STATE_PER_SHARD = 1,  /* belongs to a data shard (dataset.h), and moves with it */
  TENON_STATE_PER_RANK = 2    /* dropped with a warning if the number of ranks changes */
};
/* Type of an entry. */
enum { TENON_STATE_INT = 1, TENON_STATE_DOUBLE = 2, TENON_STATE_BYTES = 3, TENON_STATE_TENSOR = 4 };
/* Flags of put_tensor. COPY: the host copies the tensor during the call. */
enum { TENON_STATE_COPY = 1u << 0 };

typedef struct tenon_state_writer tenon_state_writer;
/* Receives the entries of a snapshot. Names are paths "a/b/c" whose parts use [a-z0-9_.-]. The tags
 * below hold for every function.
 *
 * Errors   TENON_INVALID for an invalid or duplicate name, an unknown scope or unknown flags
 * Threads  those of `snapshot`, and only during it
 * Owner    names and bytes are copied; of tensors the host takes a reference
 * Since    0.1 */
struct tenon_state_writer {
  size_t struct_size;
  void* impl;
  /* Saves an integer. */
  tenon_status* (*put_int)(tenon_state_writer* writer,
                           const char* name,
                           int64_t value,
                           uint32_t scope);
  /* Saves a double. */
  tenon_status* (*put_double)(tenon_state_writer* writer,
                              const char* name,
                              double value,
                              uint32_t scope);
  /* Saves bytes; `data` may be null if size is 0.
   *
   * Errors   TENON_INVALID for more than 1 MiB */
  tenon_status* (*put_bytes)(
      tenon_state_writer* writer, const char* name, const void* data, size_t size, uint32_t scope);
  /* Saves a tensor; `flags` is 0 or TENON_STATE_COPY. */
  tenon_status* (*put_tensor)(tenon_state_writer* writer,
                              const char* name,
                              const tenon_tensor* tensor,
                              uint32_t scope,
                              uint32_t flags);
};
TENON_SEAL(tenon_state_writer, put_tensor);

typedef struct tenon_state_reader tenon_state_reader;
/* Gives access to the entries of a checkpoint. The tags below hold for every function.
 *
 * Errors   TENON_NOT_FOUND if there is no such entry, TENON_INVALID if it has another type
 * Threads  those of `load`, and only during it
 * Owner    bytes and tensors are borrowed until `load` returns
 * Since    0.1 */
struct tenon_state_reader {
  size_t struct_size;
  void* impl;
  /* The value that `version` returned when the entries were saved. */
  uint32_t version;
  uint32_t reserved;
  /* Reads an integer. */
  tenon_status* (*get_int)(tenon_state_reader* reader, const char* name, int64_t* out);
  /* Reads a double. */
  tenon_status* (*get_double)(tenon_state_reader* reader, const char* name, double* out);
  /* Reads bytes. */
  tenon_status* (*get_bytes)(tenon_state_reader* reader,
                             const char* name,
                             const void** out_ref,
                             size_t* out_size);
  /* Reads a tensor. */
  tenon_status* (*get_tensor)(tenon_state_reader* reader,
                              const char* name,
                              const tenon_tensor** out_ref);
  /* Returns the number of entries. */
  tenon_status* (*get_num_entries)(tenon_state_reader* reader, size_t* out);
  /* Returns name and type (TENON_STATE_INT to TENON_STATE_TENSOR) of entry `i`; entries are sorted
   * by name. TENON_NOT_FOUND if there are not that many.
   *
   * Owner    the name is borrowed until `load` returns */
  tenon_status* (*get_entry)(tenon_state_reader* reader,
                             size_t i,
                             const char** out_name_ref,
                             uint32_t* out_type);
};
TENON_SEAL(tenon_state_reader, get_entry);

#define TENON_STATEFUL_ID "tenon.stateful/1"

/* Extension TENON_STATEFUL_ID. */
typedef struct tenon_stateful {
  size_t struct_size;
  /* Returns the version of the entries that `snapshot` writes. Increase it when their meaning
   * changes; `load` then decides which older versions it accepts.
   *
   * Threads  [any]
   * Since    0.1 */
  uint32_t (*version)(void* self);
  /* Saves the state into `writer`.
   *
   * Errors   any error makes the checkpoint fail
   * Threads  [step], between steps
   * Owner    `writer` is borrowed until return
   * Since    0.1 */
  tenon_status* (*snapshot)(void* self, tenon_state_writer* writer);
  /* Restores the state. It may reject a version, with the reason.
   *
   * Errors   TENON_UNSUPPORTED for a version it cannot read. After an error the host destroys the
   *          instance
   * Threads  [main]
   * Owner    `reader` is borrowed until return
   * Since    0.1 */
  tenon_status* (*load)(void* self, tenon_state_reader* reader);
} tenon_stateful;
TENON_SEAL(tenon_stateful, load);

TENON_C_END
#endif
