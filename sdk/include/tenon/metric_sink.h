/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a metric sink: a destination for a run's metrics. Only rank 0 has sinks. */
#ifndef TENON_METRIC_SINK_H
#define TENON_METRIC_SINK_H

#include "component.h"

TENON_C_BEGIN

#define TENON_METRIC_SINK_ID "tenon.metric_sink/1"

/* One record. All pointers are borrowed until `write` returns. */
typedef struct tenon_metric_record {
  size_t struct_size;
  uint64_t step;            /* from 1; 0 before the first step */
  double unix_seconds;      /* time of the record, in seconds since 1970 UTC */
  const char* const* names; /* [count] for example "loss", "lr", "eval/loss" */
  const double* values;     /* [count] may be NaN or infinite */
  size_t count;
  /* Label of the record's training window; "" if the dataset has no windows. */
  const char* window_label;
} tenon_metric_record;
TENON_SEAL(tenon_metric_record, window_label);

/* Interface TENON_METRIC_SINK_ID. */
typedef struct tenon_metric_sink {
  size_t struct_size;
  /* Opens the sink. `run_dir` is the run directory, which exists.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `run_dir` is borrowed until return
   * Since    0.1 */
  tenon_status* (*open)(void* self, const char* run_dir);
  /* Writes one record.
   *
   * Errors   an error is logged and counted; the run continues
   * Threads  [step]
   * Owner    the record is borrowed until return
   * Since    0.1 */
  tenon_status* (*write)(void* self, const tenon_metric_record* record);
  /* Flushes: everything written so far reaches the file system.
   *
   * Errors   an error is logged and counted; the run continues
   * Threads  [step]
   * Since    0.1 */
  tenon_status* (*flush)(void* self);
  /* Prepares for a resumed or rolled-back run, which repeats the steps after `step`. Drops the
   * records of later steps from the sink's output, and of `step` itself all but the first
   * `records_of_step`. Null: nothing is dropped.
   *
   * Errors   any error ends the run
   * Threads  [step], after `open`, between two writes
   * Since    0.1 */
  tenon_status* (*resume)(void* self, uint64_t step, uint64_t records_of_step);
} tenon_metric_sink;
TENON_SEAL(tenon_metric_sink, resume);
TENON_SLOT(tenon_metric_sink, open, 0);
TENON_SLOT(tenon_metric_sink, flush, 2);
TENON_SLOT(tenon_metric_sink, resume, 3);

TENON_C_END
#endif
