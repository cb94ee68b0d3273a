/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss: from outputs and batch to a differentiable sum, and the number of items it sums over. It
 * never divides: the host divides all sums of a step by all counts, over microbatches and ranks, so
 * that accumulation, more ranks and one big batch mean the same. */
#ifndef TENON_LOSS_H
#define TENON_LOSS_H

#include "component.h"
#include "ports.h"

TENON_C_BEGIN

#define TENON_LOSS_ID "tenon.loss/1"

/* Along which axis the sum of parts is the sum of the whole. The host then may compute it in parts.
 */
enum { TENON_ADDITIVE_NONE = 0, TENON_ADDITIVE_SAMPLES = 1, TENON_ADDITIVE_TOKENS = 2 };

enum {
  /* `count` needs batch fields alone, so that the host may ask before the forward (model outputs
   * are then null). Required of each where a recipe has several losses. */
  TENON_LOSS_COUNT_FROM_BATCH = 1u << 0
};

typedef struct tenon_loss_info {
  size_t struct_size; /* set by the host, who also zeroes the rest */
  uint32_t additive_over;
  uint32_t flags;
  const tenon_port* ports_ref; /* lives as long as the instance */
  size_t num_ports;
} tenon_loss_info;
TENON_SEAL(tenon_loss_info, num_ports);

typedef struct tenon_loss {
  size_t struct_size;

  /* Threads [main], once, before any other call  Since 0.1 */
  tenon_status* (*describe)(void* self, tenon_loss_info* out);

  /* Counts the items of one microbatch.
   *
   * Shapes   inputs in the order of the ports, null where optional and absent; out [] f64 on exec's
   * device Threads  [step] Owner    inputs are borrowed; the host releases *out_count_own Since 0.1
   */
  tenon_status* (*count)(void* self,
                         const tenon_exec* exec,
                         const tenon_tensor* const* inputs,
                         size_t num_inputs,
                         tenon_tensor** out_count_own);

  /* Sums the loss of one microbatch.
   *
   * Shapes   inputs as above; sum [] f32 (f64 under precision fp64), on exec's device
   * Errors   TENON_INVALID if shapes do not fit each other
   * Threads  [step]; recorded by autograd, unless `backward` is there
   * Owner    inputs are borrowed; the host releases *out_sum_own
   * Since    0.1 */
  tenon_status* (*compute)(void* self,
                           const tenon_exec* exec,
                           const tenon_tensor* const* inputs,
                           size_t num_inputs,
                           tenon_tensor** out_sum_own);

  /* Hand-written gradient of the sum by each input, times the scalar `grad_sum`; null where there
   * is none. The pointer is null where autograd does it. Threads [step], after `compute` with the
   * same inputs  Since 0.1 */
  tenon_status* (*backward)(void* self,
                            const tenon_exec* exec,
                            const tenon_tensor* const* inputs,
                            size_t num_inputs,
                            const tenon_tensor* grad_sum,
                            tenon_tensor** grad_inputs_own);
} tenon_loss;

TENON_SEAL(tenon_loss, backward);
TENON_SLOT(tenon_loss, describe, 0);
TENON_SLOT(tenon_loss, backward, 3);

TENON_C_END
#endif
