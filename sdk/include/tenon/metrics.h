/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures that a component wants in the run's record. A name has at most 100 of [A-Za-z0-9_/.-];
 * a component's own figures start with its type ("router/entropy"). The same name given again
 * within a step adds to it. In an evaluation the host puts "eval/" before the name. Lines for
 * people go to log.h. */
#ifndef TENON_METRICS_H
#define TENON_METRICS_H

#include "tensor.h"

TENON_C_BEGIN

#define TENON_METRICS_ID "tenon.metrics/1"

typedef struct tenon_metrics_api {
  size_t struct_size;
  /* Adds (sum, weight): the record shows sum / weight over the steps since the last record.
   * Errors TENON_INVALID for an illegal name  Threads [step]  Since 0.1 */
  tenon_status* (*add)(const tenon_host* host, const char* name, double sum, double weight);
  /* The same with scalars that may still be under way on a device: they are read when a record is
   * written, not now. Borrowed; the host takes references. */
  tenon_status* (*add_tensor)(const tenon_host* host,
                              const char* name,
                              const tenon_tensor* sum,
                              const tenon_tensor* weight);
} tenon_metrics_api;

TENON_SEAL(tenon_metrics_api, add_tensor);

TENON_C_END
#endif
