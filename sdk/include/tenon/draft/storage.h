/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a storage for checkpoints: named directories of files, each
 * committed atomically. The storage does not interpret file contents.
 *
 * A checkpoint is open first, and then either committed or removed:
 *
 * - Until `commit` returns success, the checkpoint is not in `list` and cannot be read under any
 * name.
 * - After that, the complete checkpoint is visible on every machine that sees the storage, and
 * survives a power failure.
 * - A process that dies, or an `abort`, leaves nothing that `list` shows. The next `open` of that
 *   name, or `remove`, deletes any leftovers.
 * - A committed checkpoint never changes. It can only be removed, and disappears from `list` first.
 *
 * With several ranks, each rank opens the checkpoint by the same name and writes separate files.
 * When all ranks have closed their files, which the host ensures, one rank commits. At most one
 * checkpoint is open at a time. */
#ifndef TENON_DRAFT_STORAGE_H
#define TENON_DRAFT_STORAGE_H

#include "../component.h"

TENON_C_BEGIN

#define TENON_STORAGE_ID "tenon.storage/1"

/* A file of an open checkpoint. Opaque; defined by the plugin. */
typedef struct tenon_storage_file tenon_storage_file;

/* Receives names, one per call. An error stops the caller and is passed on. The name is borrowed
 * until the sink returns. */
typedef tenon_status* (*tenon_names_sink)(void* context, const char* name);

/* Interface TENON_STORAGE_ID. Names of checkpoints and files have 1 to 200 characters of
 * [A-Za-z0-9_.-] and do not start with a dot; the host validates them. "latest", "COMMITTED" and
 * "COMMITTED.tmp" are reserved for storages. The tags below hold for every function.
 *
 * Errors   TENON_IO, with the system's reason and the full address
 * Owner    all arguments are borrowed until return
 * Since    0.1 */
typedef struct tenon_storage {
  size_t struct_size;

  /* Connects to the location in the options. `place` separates runs and purposes:
   * "mlp-7/checkpoints". Checkpoints of one place are invisible in another. The call writes
   * nothing, because readers connect as well.
   *
   * Errors   TENON_NOT_FOUND, TENON_IO
   * Threads  [main], once, before any other call */
  tenon_status* (*connect)(void* self, const char* place);

  /* Opens a checkpoint for writing. `is_first` is 1 on the one rank that calls before all others;
   * that call deletes leftovers of dead processes.
   *
   * Errors   TENON_INVALID if a committed checkpoint has that name
   * Threads  [worker] */
  tenon_status* (*open)(void* self, const char* checkpoint, uint32_t is_first);
  /* Creates a file in an open checkpoint.
   *
   * Errors   TENON_INVALID if the checkpoint has that file
   * Threads  [worker]
   * Owner    *out_own belongs to the plugin; the host passes it to `close`, also after an error */
  tenon_status* (*create_file)(void* self,
                               const char* checkpoint,
                               const char* file,
                               tenon_storage_file** out_own);
  /* Appends to a file.
   *
   * Threads  [worker]: different files concurrently, one file never */
  tenon_status* (*write)(void* self, tenon_storage_file* file, const void* data, size_t size);
  /* Closes a file. The handle is invalid afterwards, even after an error. With `keep` = 1, success
   * means that the content is ready for `commit`; with 0, the file is discarded.
   *
   * Threads  [worker]
   * Owner    takes `file_own` */
  tenon_status* (*close)(void* self, tenon_storage_file* file_own, uint32_t keep);
  /* Commits the checkpoint atomically. Called on one rank, after the last `close` of every rank.
   *
   * Errors   TENON_NOT_FOUND if no such checkpoint is open. After an error the checkpoint is not visible,
   *          and `commit` may be retried
   * Threads  [worker] */
  tenon_status* (*commit)(void* self, const char* checkpoint);
  /* Discards an open checkpoint. It is no error if the checkpoint does not exist.
   *
   * Threads  [worker] */
  tenon_status* (*abort)(void* self, const char* checkpoint);

  /* Lists the committed checkpoints, in commit order.
   *
   * Threads  [worker] */
  tenon_status* (*list)(void* self, tenon_names_sink sink, void* context);
  /* Lists the files of a committed checkpoint, sorted by name.
   *
   * Errors   TENON_NOT_FOUND if there is no such checkpoint
   * Threads  [worker] */
  tenon_status* (*list_files)(void* self,
                              const char* checkpoint,
                              tenon_names_sink sink,
                              void* context);
  /* Returns the size of a file, in bytes.
   *
   * Errors   TENON_NOT_FOUND if there is no such file
   * Threads  [worker] */
  tenon_status* (*file_size)(void* self, const char* checkpoint, const char* file, uint64_t* out);
  /* Reads exactly `size` bytes from `offset`, both in bytes.
   *
   * Errors   TENON_NOT_FOUND if there is no such file; TENON_IO, with the offset, if the file is
   *          shorter
   * Threads  [worker]: several reads concurrently, also of one file
   * Owner    `out` belongs to the caller */
  tenon_status* (*read)(void* self,
                        const char* checkpoint,
                        const char* file,
                        uint64_t offset,
                        void* out,
                        size_t size);
  /* Removes a committed checkpoint, or the leftovers of one that was never committed. It is no
   * error if the checkpoint does not exist.
   *
   * Threads  [worker], while nobody reads it */
  tenon_status* (*remove)(void* self, const char* checkpoint);
  /* Passes one string to the sink: the address of the checkpoint in messages, for example
   * "s3://bucket/a/step-500". The checkpoint need not exist.
   *
   * Threads  [any] */
  tenon_status* (*address)(void* self,
                           const char* checkpoint,
                           tenon_names_sink sink,
                           void* context);
} tenon_storage;

TENON_SEAL(tenon_storage, address);
TENON_SLOT(tenon_storage, connect, 0);
TENON_SLOT(tenon_storage, open, 1);
TENON_SLOT(tenon_storage, commit, 5);
TENON_SLOT(tenon_storage, list, 7);
TENON_SLOT(tenon_storage, remove, 11);
TENON_SLOT(tenon_storage, address, 12);

TENON_C_END
#endif
