/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the files that a component reads, so that the host notices if they change between a
 * checkpoint and a resume. It is an optional ability of datasets, tokenizers, features and models.
 *
 * The host hashes the files, and saves names, sizes and hashes in each checkpoint. A resume with
 * other files ends with `data.changed`, unless the recipe allows it. Modification times do not
 * count. A tokenizer that passes its files in `files` (tokenizer.h) needs no list: the host hashes
 * these. */
#ifndef TENON_DRAFT_SOURCE_FILES_H
#define TENON_DRAFT_SOURCE_FILES_H

#include "../dataset.h"

TENON_C_BEGIN

#define TENON_SOURCE_FILES_ID "tenon.source_files/1"

/* Flags of a source file. */
enum {
  /* The name is part of the data, as in "day=2026-11-20/part-0.parquet". A name that differs below
   * the common folder of all files is then a change. */
  TENON_SOURCE_NAME_COUNTS = 1u << 0
};

/* A file that a component reads. All pointers are borrowed until the sink returns. */
typedef struct tenon_source_file {
  size_t struct_size;
  const char* name; /* path or URI, as users know it */
  /* Path of a local file, which the host hashes; null: the host cannot read the file. */
  const char* path;
  /* A text that differs if the content does: a hash of all bytes, an ETag. The host then does not
   * read the file. Null: unknown. */
  const char* version;
  int64_t size;   /* bytes; -1: unknown, or that of the local file */
  uint32_t flags; /* TENON_SOURCE_* */
  uint32_t reserved;
} tenon_source_file;
TENON_SEAL(tenon_source_file, reserved);

/* Receives the files, one per call. An error stops the caller and is passed on. */
typedef tenon_status* (*tenon_source_file_sink)(void* context, const tenon_source_file* file);

/* Arguments of `list_sources`. All pointers are borrowed until return. */
typedef struct tenon_source_files_args {
  size_t struct_size;
  /* Window that the host has opened, and whose files are wanted; null: all files. */
  const tenon_window* window;
  tenon_source_file_sink sink;
  void* context; /* first argument of `sink` */
} tenon_source_files_args;
TENON_SEAL(tenon_source_files_args, context);

/* Extension TENON_SOURCE_FILES_ID. */
typedef struct tenon_source_files {
  size_t struct_size;
  /* Passes the files to the sink, in the order in which the component reads them. It must be cheap,
   * and reads no file.
   *
   * Errors   any error ends the run; errors of the sink
   * Threads  [main], after `describe`; with a window, while no read is running
   * Owner    `args` is borrowed until return
   * Since    0.5 */
  tenon_status* (*list_sources)(void* self, const tenon_source_files_args* args);
} tenon_source_files;
TENON_SEAL(tenon_source_files, list_sources);
TENON_SLOT(tenon_source_files, list_sources, 0);

TENON_C_END
#endif
