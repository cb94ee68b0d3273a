/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a storage for checkpoints: named directories of files, each committed atomically. The
 * storage does not interpret file contents.
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

/* Arguments of `connect`. */
typedef struct tenon_storage_connect_args {
  size_t struct_size;
  /* Separates runs and purposes: "mlp-7/checkpoints". Checkpoints of one place are invisible in
   * another. */
  const char* place;
} tenon_storage_connect_args;
TENON_SEAL(tenon_storage_connect_args, place);

/* Arguments of `open`. */
typedef struct tenon_storage_open_args {
  size_t struct_size;
  const char* checkpoint;
  /* 1 on the one rank that calls before all others; that call deletes leftovers of dead processes.
   */
  uint32_t is_first;
  uint32_t reserved;
} tenon_storage_open_args;
TENON_SEAL(tenon_storage_open_args, reserved);

/* Arguments of `create_file`. */
typedef struct tenon_storage_create_args {
  size_t struct_size;
  const char* checkpoint;
  const char* file;
  tenon_storage_file* out_file_own; /* result: belongs to the plugin; the host closes it */
} tenon_storage_create_args;
TENON_SEAL(tenon_storage_create_args, out_file_own);

/* Arguments of `write`. */
typedef struct tenon_storage_write_args {
  size_t struct_size;
  tenon_storage_file* file;
  const void* data; /* [size] bytes */
  size_t size;
} tenon_storage_write_args;
TENON_SEAL(tenon_storage_write_args, size);

/* Arguments of `close`. */
typedef struct tenon_storage_close_args {
  size_t struct_size;
  tenon_storage_file* file_own; /* invalid after the call, even after an error */
  uint32_t keep;                /* 1: the file is complete; 0: it is discarded */
  uint32_t reserved;
} tenon_storage_close_args;
TENON_SEAL(tenon_storage_close_args, reserved);

/* Arguments of `commit`, `abort` and `remove`. */
typedef struct tenon_storage_checkpoint_args {
  size_t struct_size;
  const char* checkpoint;
} tenon_storage_checkpoint_args;
TENON_SEAL(tenon_storage_checkpoint_args, checkpoint);

/* Arguments of `list`, `list_files` and `address`. */
typedef struct tenon_storage_list_args {
  size_t struct_size;
  const char* checkpoint; /* null for `list` */
  tenon_names_sink sink;
  void* context; /* first argument of `sink` */
} tenon_storage_list_args;
TENON_SEAL(tenon_storage_list_args, context);

/* Arguments of `file_size`. */
typedef struct tenon_storage_size_args {
  size_t struct_size;
  const char* checkpoint;
  const char* file;
  uint64_t out_size; /* result, in bytes */
} tenon_storage_size_args;
TENON_SEAL(tenon_storage_size_args, out_size);

/* Arguments of `read`. */
typedef struct tenon_storage_read_args {
  size_t struct_size;
  const char* checkpoint;
  const char* file;
  uint64_t offset; /* in bytes */
  size_t size;     /* in bytes */
  void* data;      /* [size] bytes of the caller, which receive the content */
} tenon_storage_read_args;
TENON_SEAL(tenon_storage_read_args, data);

/* Interface TENON_STORAGE_ID. Names of checkpoints and files have 1 to 200 characters of
 * [A-Za-z0-9_.-] and do not start with a dot; the host validates them. "latest", "COMMITTED" and
 * "COMMITTED.tmp" are reserved for storages. The tags below hold for every function.
 *
 * Errors   TENON_IO, with the system's reason and the full address; TENON_TIMEOUT if a retry may
 *          help
 * Owner    all arguments are borrowed until return
 * Since    0.1 */
typedef struct tenon_storage {
  size_t struct_size;

  /* Connects to the location in the options. The call writes nothing, because readers connect as
   * well.
   *
   * Errors   TENON_NOT_FOUND, TENON_IO
   * Threads  [main], once, before any other call */
  tenon_status* (*connect)(void* self, const tenon_storage_connect_args* args);

  /* Opens a checkpoint for writing.
   *
   * Errors   TENON_EXISTS if a committed checkpoint has that name
   * Threads  [worker] */
  tenon_status* (*open)(void* self, const tenon_storage_open_args* args);
  /* Creates a file in an open checkpoint.
   *
   * Errors   TENON_EXISTS if the checkpoint has that file
   * Threads  [worker]
   * Owner    the file belongs to the plugin; the host passes it to `close`, also after an error */
  tenon_status* (*create_file)(void* self, tenon_storage_create_args* args);
  /* Appends to a file.
   *
   * Threads  [worker]: different files concurrently, one file never */
  tenon_status* (*write)(void* self, const tenon_storage_write_args* args);
  /* Closes a file. With `keep` = 1, success means that the content is ready for `commit`.
   *
   * Threads  [worker]
   * Owner    takes `file_own` */
  tenon_status* (*close)(void* self, const tenon_storage_close_args* args);
  /* Commits the checkpoint atomically. Called on one rank, after the last `close` of every rank.
   *
   * Errors   TENON_NOT_FOUND if no such checkpoint is open. After an error the checkpoint is not
   *          visible, and `commit` may be retried
   * Threads  [worker] */
  tenon_status* (*commit)(void* self, const tenon_storage_checkpoint_args* args);
  /* Discards an open checkpoint. It is no error if the checkpoint does not exist.
   *
   * Threads  [worker] */
  tenon_status* (*abort)(void* self, const tenon_storage_checkpoint_args* args);

  /* Lists the committed checkpoints, in commit order.
   *
   * Threads  [worker] */
  tenon_status* (*list)(void* self, const tenon_storage_list_args* args);
  /* Lists the files of a committed checkpoint, sorted by name.
   *
   * Errors   TENON_NOT_FOUND if there is no such checkpoint
   * Threads  [worker] */
  tenon_status* (*list_files)(void* self, const tenon_storage_list_args* args);
  /* Returns the size of a file.
   *
   * Errors   TENON_NOT_FOUND if there is no such file
   * Threads  [worker] */
  tenon_status* (*file_size)(void* self, tenon_storage_size_args* args);
  /* Reads exactly `size` bytes from `offset`.
   *
   * Errors   TENON_NOT_FOUND if there is no such file; TENON_DATA_LOSS, with the offset, if the
   *          file is shorter
   * Threads  [worker]: several reads concurrently, also of one file */
  tenon_status* (*read)(void* self, const tenon_storage_read_args* args);
  /* Removes a committed checkpoint, or the leftovers of one that was never committed. It is no
   * error if the checkpoint does not exist.
   *
   * Threads  [worker], while nobody reads it */
  tenon_status* (*remove)(void* self, const tenon_storage_checkpoint_args* args);
  /* Passes one string to the sink: the address of the checkpoint in messages, for example
   * "s3://bucket/a/step-500". The checkpoint need not exist.
   *
   * Threads  [any] */
  tenon_status* (*address)(void* self, const tenon_storage_list_args* args);
} tenon_storage;

TENON_SEAL(tenon_storage, address);
TENON_SLOT(tenon_storage, connect, 0);
TENON_SLOT(tenon_storage, open, 1);
TENON_SLOT(tenon_storage, create_file, 2);
TENON_SLOT(tenon_storage, write, 3);
TENON_SLOT(tenon_storage, close, 4);
TENON_SLOT(tenon_storage, commit, 5);
TENON_SLOT(tenon_storage, abort, 6);
TENON_SLOT(tenon_storage, list, 7);
TENON_SLOT(tenon_storage, list_files, 8);
TENON_SLOT(tenon_storage, file_size, 9);
TENON_SLOT(tenon_storage, read, 10);
TENON_SLOT(tenon_storage, remove, 11);
TENON_SLOT(tenon_storage, address, 12);

TENON_C_END
#endif
