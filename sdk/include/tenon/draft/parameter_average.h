/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets a hook average parameters over updates. The host stores one average of each trained
 * parameter, sharded as the parameter, saves it in checkpoints and reshards it. Evaluations and
 * exports use the averages instead of the parameters; training does not. A run has at most one
 * such hook. */
#ifndef TENON_DRAFT_PARAMETER_AVERAGE_H
#define TENON_DRAFT_PARAMETER_AVERAGE_H

#include "../exec.h"
#include "../tensor.h"

TENON_C_BEGIN

#define TENON_PARAMETER_AVERAGE_ID "tenon.parameter_average/1"

/* Arguments of `update`. All arrays are borrowed until return. */
typedef struct tenon_parameter_average_args {
  size_t struct_size; /* set by the host */
  size_t num_pieces;
  /* [num_pieces] Flat slices of this rank's parameters, after the update. */
  const tenon_tensor* const* parameters;
  /* [num_pieces] Averages of these slices, to be changed in place: f32, or f64 for f64 parameters.
   * At the first update they hold the parameters. */
  tenon_tensor* const* averages;
  /* Number of applied updates, this one included, from 1. Saved in checkpoints. */
  uint64_t num_updates;
} tenon_parameter_average_args;
TENON_SEAL(tenon_parameter_average_args, num_updates);

/* Extension TENON_PARAMETER_AVERAGE_ID of a hook. */
typedef struct tenon_parameter_average {
  size_t struct_size;
  /* Includes the parameters in the averages. The host calls it after each applied update, before
   * the hooks of after_optimizer_step. The result for an element depends on this element alone, so
   * that it is equal for any sharding.
   *
   * Shapes   as in tenon_parameter_average_args, on exec's device
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return
   * Since    0.5 */
  tenon_status* (*update)(void* self,
                          const tenon_exec* exec,
                          const tenon_parameter_average_args* args);
} tenon_parameter_average;
TENON_SEAL(tenon_parameter_average, update);
TENON_SLOT(tenon_parameter_average, update, 0);

TENON_C_END
#endif
