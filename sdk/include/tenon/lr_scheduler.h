/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a learning-rate schedule: a factor on the `lr` of each group, as a pure function of the
 * step. */
#ifndef TENON_LR_SCHEDULER_H
#define TENON_LR_SCHEDULER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_LR_SCHEDULER_ID "tenon.lr_scheduler/1"

/* Interface TENON_LR_SCHEDULER_ID. */
typedef struct tenon_lr_scheduler {
  size_t struct_size;
  /* Returns true if `factor` needs the length of the run. The host then rejects a recipe that does
   * not specify it.
   *
   * Threads  [main]
   * Since    0.1 */
  bool (*needs_total)(void* self);
  /* Computes the factor for a step.
   *
   * Units    step counts from 0, skipped updates included; total is the run's number of steps, 0 if
   *          unknown; *out is a factor without unit
   * Errors   any error ends the run
   * Threads  [step]
   * Since    0.1 */
  tenon_status* (*factor)(void* self, uint64_t step, uint64_t total, double* out);
} tenon_lr_scheduler;
TENON_SEAL(tenon_lr_scheduler, factor);
TENON_SLOT(tenon_lr_scheduler, needs_total, 0);
TENON_SLOT(tenon_lr_scheduler, factor, 1);

TENON_C_END
#endif
