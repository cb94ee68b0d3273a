/* SPDX-License-Identifier: Apache-2.0
 *
 * Records metrics of a component in the run's metric records. Write messages for people to the log
 * (log.h).
 *
 * A name has 1 to 100 characters of [A-Za-z0-9_/.-]. A component's metrics start with its type
 * ("router/entropy"). Values recorded under the same name accumulate. During an evaluation the host
 * puts "eval/" before the name. Outside of a run, recorded values are discarded. */
#ifndef TENON_METRICS_H
#define TENON_METRICS_H

#include "tensor.h"

TENON_C_BEGIN

#define TENON_METRICS_ID "tenon.metrics/1"

/* Service TENON_METRICS_ID. */
typedef struct tenon_metrics_api {
  size_t struct_size;
  /* Adds (sum, weight) to a metric. The record shows total sum / total weight over the steps since
   * the last record.
   *
   * Errors   TENON_INVALID if the name is null or invalid
   * Threads  [step]
   * Owner    `name` is copied
   * Since    0.1 */
  tenon_status* (*add)(const tenon_host* host, const char* name, double sum, double weight);
  /* Does the same with scalar tensors of any device. The host reads them when it writes a record,
   * so the call does not wait for the device.
   *
   * Shapes   sum and weight: one element each
   * Errors   TENON_INVALID if the name is null or invalid, or a tensor is null or no scalar
   * Threads  [step]
   * Owner    tensors are borrowed; the host takes references
   * Since    0.1 */
  tenon_status* (*add_tensor)(const tenon_host* host,
                              const char* name,
                              const tenon_tensor* sum,
                              const tenon_tensor* weight);
} tenon_metrics_api;

TENON_SEAL(tenon_metrics_api, add_tensor);

TENON_C_END
#endif
