/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a learning-rate schedule: a factor on the `lr` of each group, as a pure function of the
 * step. */
#ifndef TENON_LR_SCHEDULER_H
#define TENON_LR_SCHEDULER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_LR_SCHEDULER_ID "tenon.lr_scheduler/1"

/* Result of `describe`. */
typedef struct tenon_lr_scheduler_info {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  /* 1: `factor` needs the length of the run. The host then rejects a recipe that does not specify
   * it. */
  uint32_t needs_total;
  uint32_t reserved;
} tenon_lr_scheduler_info;
TENON_SEAL(tenon_lr_scheduler_info, reserved);

/* Arguments of `factor`. */
typedef struct tenon_lr_factor_args {
  size_t struct_size;
  uint64_t step;     /* counts from 0, skipped updates included */
  uint64_t total;    /* number of steps of the run; 0 if unknown */
  double out_factor; /* result: finite, not negative, without unit */
} tenon_lr_factor_args;
TENON_SEAL(tenon_lr_factor_args, out_factor);

/* Interface TENON_LR_SCHEDULER_ID. */
typedef struct tenon_lr_scheduler {
  size_t struct_size;
  /* Describes the schedule.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed until return
   * Since    0.4 */
  tenon_status* (*describe)(void* self, tenon_lr_scheduler_info* out);
  /* Computes the factor for a step: a pure function of the arguments.
   *
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*factor)(void* self, tenon_lr_factor_args* args);
} tenon_lr_scheduler;
TENON_SEAL(tenon_lr_scheduler, factor);
TENON_SLOT(tenon_lr_scheduler, describe, 0);
TENON_SLOT(tenon_lr_scheduler, factor, 1);

TENON_C_END
#endif
