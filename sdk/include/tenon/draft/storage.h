/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage for checkpoints: named bundles of files, each there wholly or not at all. What is in the
 * files is not its concern.
 *
 * A bundle is open, and then either committed or gone:
 *
 *   - until `commit` returned success it is in no `list`, and cannot be read, under any name;
 *   - after that all of it is, on every machine that sees the storage, with the content that was
 *     written, and survives loss of power;
 *   - a process that dies, or an `abort`, leaves nothing that `list` shows. What it leaves
 * otherwise the next `open` of that name removes, and so does `remove`;
 *   - a committed bundle is never changed; it can only be removed, and disappears from `list`
 * first.
 *
 * With several ranks each opens the bundle by the same name and writes files of its own; when all
 * have closed theirs (the host sees to that), one rank commits. One bundle at a time is open. */
#ifndef TENON_DRAFT_STORAGE_H
#define TENON_DRAFT_STORAGE_H

#include "../component.h"

TENON_C_BEGIN

#define TENON_STORAGE_ID "tenon.storage/1"

/* A file of an open bundle. */
typedef struct tenon_storage_file tenon_storage_file;

/* Receives names, in one call each. */
typedef tenon_status* (*tenon_names_sink)(void* context, const char* name);

/* Names of bundles and files are of [A-Za-z0-9_.-], at most 200 of them, and begin with no dot;
 * "latest", "COMMITTED" and "COMMITTED.tmp" are no names: storages may use them for their own ends.
 * All: Errors TENON_IO with the system's reason and the full address. Since 0.1. */
typedef struct tenon_storage {
  size_t struct_size;

  /* Connects to where the options point. `place` tells runs apart, and what they keep:
   * "mlp-7/checkpoints"; bundles of one place are not seen from another. Nothing is written: one
   * who only reads connects too.
   * Errors   TENON_NOT_FOUND, TENON_IO
   * Threads  [main], once, before any other call */
  tenon_status* (*connect)(void* self, const char* place);

  /* Opens a bundle for writing. `is_first` is 1 on the one rank that calls before all others, and
   * clears away what dead processes left.
   * Errors   TENON_INVALID if a committed bundle has that name
   * Threads  [worker] */
  tenon_status* (*open)(void* self, const char* bundle, uint32_t is_first);
  /* Makes a file in an open bundle.
   * Errors   TENON_INVALID if the bundle has it
   * Threads  [worker]
   * Owner    *out_own is the plugin's; the host ends it by `close`, also after an error */
  tenon_status* (*create_file)(void* self,
                               const char* bundle,
                               const char* file,
                               tenon_storage_file** out_own);
  /* Appends. Threads [worker]: different files at once, one file never  Owner data is borrowed */
  tenon_status* (*write)(void* self, tenon_storage_file* file, const void* data, size_t size);
  /* Ends a file: the handle is gone, whatever came of it. With `keep` 1 and on success its content
   * is where `commit` needs it; with 0 it is given up. Threads [worker] */
  tenon_status* (*close)(void* self, tenon_storage_file* file_own, uint32_t keep);
  /* Makes the bundle appear, as the last act: once, on one rank, after every rank's last `close`.
   * Errors   TENON_NOT_FOUND if no such bundle is open. On an error the bundle has not appeared,
   * and `commit` may be tried again Threads  [worker] */
  tenon_status* (*commit)(void* self, const char* bundle);
  /* Gives an open bundle up. One that is not there is no error. Threads [worker] */
  tenon_status* (*abort)(void* self, const char* bundle);

  /* The committed bundles, in the order of their commits.
   * Threads [worker]  Owner names live during the sink's call */
  tenon_status* (*list)(void* self, tenon_names_sink sink, void* context);
  /* The files of a committed bundle, sorted.  Errors TENON_NOT_FOUND  Threads [worker] */
  tenon_status* (*list_files)(void* self, const char* bundle, tenon_names_sink sink, void* context);
  /* Size of a file in bytes.  Errors TENON_NOT_FOUND  Threads [worker] */
  tenon_status* (*file_size)(void* self, const char* bundle, const char* file, uint64_t* out);
  /* Reads exactly `size` bytes from `offset`.
   * Errors   TENON_NOT_FOUND; TENON_IO also where the file ends sooner, naming the offset
   * Threads  [worker]: several at once, of one file too
   * Owner    `out` is the caller's */
  tenon_status* (*read)(
      void* self, const char* bundle, const char* file, uint64_t offset, void* out, size_t size);
  /* Removes a committed bundle, or what is left of one that never was. A bundle that is not there
   * is no error. Threads [worker], while nobody reads it */
  tenon_status* (*remove)(void* self, const char* bundle);
  /* Gives the sink one text, what messages call the bundle: "s3://bucket/a/step-500". Of a bundle
   * that is not there too. Threads [any] */
  tenon_status* (*address)(void* self, const char* bundle, tenon_names_sink sink, void* context);
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
