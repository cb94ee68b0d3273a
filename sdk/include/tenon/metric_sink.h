/* SPDX-License-Identifier: Apache-2.0
 *
 * A metric sink: where the figures of a run go. Rank 0 alone has sinks. */
#ifndef TENON_METRIC_SINK_H
#define TENON_METRIC_SINK_H

#include "component.h"

TENON_C_BEGIN

#define TENON_METRIC_SINK_ID "tenon.metric_sink/1"

typedef struct tenon_metric_record {
  size_t struct_size;
  uint64_t step; /* from 1; 0 before the first */
  double unix_seconds;
  const char* const* names; /* [count]: "loss", "lr", "eval/loss", ... */
  const double* values;     /* [count]; may be NaN or infinite */
  size_t count;
  const char* window_label; /* of the training window that the record is from; "" where none is */
} tenon_metric_record;
TENON_SEAL(tenon_metric_record, window_label);

typedef struct tenon_metric_sink {
  size_t struct_size;
  /* `run_dir` exists. Threads [main], once, before any other call  Since 0.1 */
  tenon_status* (*open)(void* self, const char* run_dir);
  /* Takes one record. An error is logged and counted; the run goes on.
   * Threads [step]  Owner the record is borrowed  Since 0.1 */
  tenon_status* (*write)(void* self, const tenon_metric_record* record);
  /* Everything written so far reaches the file system. Threads [step]  Since 0.1 */
  tenon_status* (*flush)(void* self);
  /* The run goes on from what was saved at `step`, or back to it, and writes what came after that
   * again. Of the records that are where this sink writes, drops those of later steps, and of
   * `step` itself all but the first `records_of_step`. May be null: nothing is dropped. An error
   * ends the run.
   * Threads [step], after open, between two writes  Since 0.1 */
  tenon_status* (*resume)(void* self, uint64_t step, uint64_t records_of_step);
} tenon_metric_sink;
TENON_SEAL(tenon_metric_sink, resume);
TENON_SLOT(tenon_metric_sink, open, 0);
TENON_SLOT(tenon_metric_sink, flush, 2);
TENON_SLOT(tenon_metric_sink, resume, 3);

TENON_C_END
#endif
