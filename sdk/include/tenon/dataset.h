/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a dataset: a schema of fields, and batches of samples. There are two styles:
 *
 *     map style     Samples are numbered. The host draws the order, assigns samples to ranks,
 *                   and resumes in O(1).
 *     stream style  The dataset chooses the order. It has S shards with one cursor each, and
 *                   saves and restores the position of each shard.
 *
 * A dataset of either style may have windows: bounded parts of the data that are read and trained
 * on as a unit. A map-style dataset with windows numbers samples within each window.
 *
 * The dataset aligns labels: `labels[t]` is the target of position t, and -100 is ignored. No model
 * or loss shifts labels. */
#ifndef TENON_DATASET_H
#define TENON_DATASET_H

#include "component.h"
#include "exec.h"
#include "ports.h"

TENON_C_BEGIN

#define TENON_DATASET_ID "tenon.dataset/1"

/* Style of a dataset. */
enum { TENON_DATASET_MAP = 0, TENON_DATASET_STREAM = 1 };

/* Flags of a field. */
enum {
  TENON_FIELD_HOST_ONLY = 1u << 0, /* never copied to a device */
  TENON_FIELD_TEXT = 1u << 1       /* u8 text: the innermost offsets split it into strings */
};

/* Declares a field. A column X with the same number of entries in each sample is one field "X", [B]
 * or [B, n]. A ragged column X has any number of entries per sample, in several fields: "X.values"
 * [entries], "X.offsets" i64 [B + 1] and, if entries have weights, "X.weights" f32 [entries].
 * Offsets start at 0, never decrease, and end with the number of entries. With two levels,
 * "X.offsets" splits the pieces, and "X.offsets.1" splits the values into pieces. The axes of
 * ragged fields have no name and size -1. Ids are i64. */
typedef struct tenon_field_spec {
  size_t struct_size;
  const char* name; /* for example "input_ids"; or a part of a ragged column */
  /* [num_axes] the first axis is "B" in fields with one entry per sample. */
  const tenon_axis* axes;
  size_t num_axes;
  uint32_t dtype; /* a dtype, not a class */
  uint32_t flags; /* TENON_FIELD_* */
  double pad;     /* padding value */
} tenon_field_spec;
TENON_SEAL(tenon_field_spec, pad);

/* Result of `describe`. */
typedef struct tenon_dataset_info {
  size_t struct_size;   /* set by the host, which also zeroes the other fields */
  uint32_t style;       /* TENON_DATASET_* */
  uint32_t has_windows; /* 0: each epoch is one window */
  /* Stream style: number of shards, at least 1. It depends on the options and never on the number
   * of ranks. Map style: ignored. */
  uint32_t num_shards;
  uint32_t reserved;
  const tenon_field_spec* fields_ref; /* [num_fields] lives as long as the instance */
  size_t num_fields;
} tenon_dataset_info;
TENON_SEAL(tenon_dataset_info, num_fields);

/* Result of `next_window`. */
typedef struct tenon_window {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  uint64_t id;        /* the same for the same window in every run */
  /* Shown to users, "2026-11-20/07"; may be null; lives until the next call of next_window. */
  const char* label_ref;
  int64_t size;  /* number of samples; -1: unknown, for streams only */
  uint32_t skip; /* 1: counted, but not trained on */
  /* Milliseconds, 0 for a window. Any other value: there is no window yet, the other fields are
   * ignored, and the host asks again after this time. */
  uint32_t wait_ms;
} tenon_window;
TENON_SEAL(tenon_window, wait_ms);

/* Receives the batch of one read. The host owns the memory, which is pinned if there is a GPU. The
 * tags below hold for every function.
 *
 * Errors   TENON_INVALID for a field or shape that contradicts the schema, a field written twice,
 *          or a null argument
 * Threads  those of the read, and only during it
 * Since    0.1 */
typedef struct tenon_batch_writer tenon_batch_writer;
struct tenon_batch_writer {
  size_t struct_size;
  void* impl;
  /* Allocates field number `field` as a contiguous tensor of `shape`. Fill *out_data before the
   * read returns. Each field is written once.
   *
   * Shapes   shape [ndim]
   * Owner    the memory belongs to the host */
  tenon_status* (*add)(tenon_batch_writer* writer,
                       uint32_t field,
                       uint32_t ndim,
                       const int64_t* shape,
                       void** out_data);
  /* Sets a field from a CPU tensor of the declared dtype, without a copy if it is contiguous.
   *
   * Owner    `tensor` is borrowed; the host takes a reference */
  tenon_status* (*add_tensor)(tenon_batch_writer* writer,
                              uint32_t field,
                              const tenon_tensor* tensor);
  /* Sets the number of samples, and of tokens that are not padding (0 if tokens have no meaning).
   * Required, once per batch. Map style: `samples` equals the number of indices. Stream style: at
   * most `max_samples`.
   *
   * Errors   TENON_INVALID for a negative or contradictory number, or a second call */
  tenon_status* (*set_counts)(tenon_batch_writer* writer, int64_t samples, int64_t tokens);
  /* Sets the shard's position after this batch, from which a resumed run continues. Stream style
   * only.
   *
   * Errors   TENON_INVALID for more than 1 MiB
   * Owner    `data` is copied */
  tenon_status* (*set_position)(tenon_batch_writer* writer, const void* data, size_t size);
  /* Sets the number of valid entries of each sample along the axis "T"; the rest is padding.
   * Optional, at most once per batch. Without it, all entries are valid.
   *
   * Shapes   lengths [n], one per sample of the batch; each in [0, T]
   * Errors   TENON_INVALID for another n or a length out of range, and for a second call
   * Owner    `lengths` is copied
   * Since    0.5 */
  tenon_status* (*set_lengths)(tenon_batch_writer* writer, const int64_t* lengths, size_t n);
};
TENON_SEAL(tenon_batch_writer, set_lengths);

/* Arguments of `read`. All pointers are borrowed until return. */
typedef struct tenon_read_args {
  size_t struct_size;
  const tenon_window* window; /* null if the dataset has no windows */
  const int64_t* indices;     /* [num_indices] each in [0, size) */
  size_t num_indices;
  tenon_batch_writer* writer; /* receives the samples, in the order of `indices`, as one batch */
} tenon_read_args;
TENON_SEAL(tenon_read_args, writer);

/* Arguments of `lengths`. All pointers are borrowed until return. */
typedef struct tenon_lengths_args {
  size_t struct_size;
  const tenon_window* window; /* null if the dataset has no windows */
  int64_t first;              /* first sample */
  size_t num_samples;
  int64_t* out_lengths; /* [num_samples] result: tokens of samples first, first + 1, ... */
} tenon_lengths_args;
TENON_SEAL(tenon_lengths_args, out_lengths);

/* Arguments of `next`. All pointers are borrowed until return. */
typedef struct tenon_next_args {
  size_t struct_size;
  const tenon_window* window; /* null if the dataset has no windows */
  uint32_t shard;             /* in [0, num_shards) */
  uint32_t out_end;           /* result: 1 at the end of the shard; 0 on entry */
  int64_t max_samples;        /* at least 1 */
  tenon_batch_writer* writer; /* receives the samples */
} tenon_next_args;
TENON_SEAL(tenon_next_args, writer);

/* Arguments of `seek`. All pointers are borrowed until return. */
typedef struct tenon_seek_args {
  size_t struct_size;
  const tenon_window* window; /* null if the dataset has no windows */
  uint32_t shard;             /* in [0, num_shards) */
  uint32_t reserved;
  /* A position that `set_position` reported, [position_size] bytes; null: the start of the window
   * or epoch. */
  const void* position;
  size_t position_size;
} tenon_seek_args;
TENON_SEAL(tenon_seek_args, position_size);

/* Interface TENON_DATASET_ID. Map style requires `size` and `read`; stream style requires `next`,
 * `seek` and `reset`; windows require `next_window` and `reset`. All others may be null.
 *
 * Of `exec`, only host, device (the CPU), mesh, services and `stop_requested` are meaningful. */
typedef struct tenon_dataset {
  size_t struct_size;

  /* Describes style, windows, shards and fields.
   *
   * Errors   TENON_IO, TENON_NOT_FOUND or TENON_INVALID for data that cannot be read
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed; the arrays it refers to belong to the instance
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_dataset_info* out);

  /* Map style: returns the number of samples in the window. `window` is null if the dataset has no
   * windows.
   *
   * Errors   TENON_IO for data that cannot be read
   * Threads  [main]
   * Since    0.1 */
  tenon_status* (*size)(void* self, const tenon_window* window, int64_t* out);
  /* Map style: reads samples as one batch.
   *
   * Errors   TENON_IO or TENON_DATA_LOSS, with file and offset; TENON_CANCELLED if
   *          `stop_requested`
   * Threads  [worker]: several reads run concurrently
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*read)(void* self, const tenon_exec* exec, const tenon_read_args* args);

  /* Stream style: reads up to `max_samples` samples from a shard, and sets the position after them.
   * At the end of the shard (of the window, or of the epoch), it writes the remaining samples,
   * possibly none, and sets `out_end`. A batch that is not the last has at least one sample.
   *
   * Errors   as for `read`
   * Threads  [worker]: different shards concurrently, one shard never
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*next)(void* self, const tenon_exec* exec, tenon_next_args* args);
  /* Stream style: moves a shard to a position. The host calls `reset` before the first `seek` of an
   * epoch, and `seek` before the first `next` of a shard that does not begin at the start.
   *
   * Errors   TENON_INVALID for a position it cannot read, TENON_IO
   * Threads  [main], while no read is running
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*seek)(void* self, const tenon_exec* exec, const tenon_seek_args* args);

  /* Returns the next window, or *out_has = 0 at the end of the epoch. A dataset that follows a
   * growing source must not block until new data arrives. It returns *out_has = 1 with `wait_ms`
   * set instead; the host keeps handling signals, and calls again.
   *
   * Errors   TENON_IO
   * Threads  [main], while no read is running
   * Owner    `label_ref` lives until the next call
   * Since    0.1 */
  tenon_status* (*next_window)(void* self, tenon_window* out, uint32_t* out_has);
  /* Starts an epoch: windows and streams start over. `epoch` counts from 0.
   *
   * Errors   TENON_IO
   * Threads  [main], while no read is running
   * Since    0.1 */
  tenon_status* (*reset)(void* self, uint64_t epoch);

  /* Map style, optional: returns the lengths of consecutive samples along the axis "T", which
   * `read` then sets in `set_lengths`. With it, the host can pack several samples into one row. It
   * must be cheap: the host calls it for all samples of an epoch.
   *
   * Errors   TENON_IO or TENON_DATA_LOSS, with file and offset
   * Threads  [worker], also while reads are running
   * Owner    `args` is borrowed until return
   * Since    0.5 */
  tenon_status* (*lengths)(void* self, const tenon_exec* exec, const tenon_lengths_args* args);
} tenon_dataset;

TENON_SEAL(tenon_dataset, lengths);
TENON_SLOT(tenon_dataset, describe, 0);
TENON_SLOT(tenon_dataset, size, 1);
TENON_SLOT(tenon_dataset, read, 2);
TENON_SLOT(tenon_dataset, next, 3);
TENON_SLOT(tenon_dataset, seek, 4);
TENON_SLOT(tenon_dataset, next_window, 5);
TENON_SLOT(tenon_dataset, reset, 6);
TENON_SLOT(tenon_dataset, lengths, 7);

TENON_C_END
#endif
