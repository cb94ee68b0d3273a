/* SPDX-License-Identifier: Apache-2.0
 *
 * A learning-rate schedule: a factor on each group's `lr`, as a pure function of the step. */
#ifndef TENON_LR_SCHEDULER_H
#define TENON_LR_SCHEDULER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_LR_SCHEDULER_ID "tenon.lr_scheduler/1"

typedef struct tenon_lr_scheduler {
  size_t struct_size;
  /* True if `factor` needs the run's length; the host then refuses a recipe that does not give one.
   * Threads [main]  Since 0.1 */
  bool (*needs_total)(void* self);
  /* The factor of step `step`, which counts from 0, in a run of `total` steps (0 where it is not
   * known). Skipped updates count as steps. Threads [step]  Since 0.1 */
  tenon_status* (*factor)(void* self, uint64_t step, uint64_t total, double* out);
} tenon_lr_scheduler;
TENON_SEAL(tenon_lr_scheduler, factor);
TENON_SLOT(tenon_lr_scheduler, needs_total, 0);
TENON_SLOT(tenon_lr_scheduler, factor, 1);

TENON_C_END
#endif
