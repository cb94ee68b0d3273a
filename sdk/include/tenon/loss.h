/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a loss: it maps outputs and batch to a differentiable sum and to the number of items in
 * the sum. A loss never divides. The host divides the sums of a step by the counts, over all
 * microbatches and ranks. The result is then the same with accumulation, with more ranks, or with
 * one large batch, up to floating-point rounding. */
#ifndef TENON_LOSS_H
#define TENON_LOSS_H

#include "component.h"
#include "ports.h"

TENON_C_BEGIN

#define TENON_LOSS_ID "tenon.loss/1"

/* Additivity: the axis along which the sum over parts equals the sum over the whole. The host may
 * then compute the loss in chunks. */
enum { TENON_ADDITIVE_NONE = 0, TENON_ADDITIVE_SAMPLES = 1, TENON_ADDITIVE_TOKENS = 2 };

/* Flags of a loss. */
enum {
  /* `count` uses only batch fields, so the host may call it before the forward; model outputs are
   * then null. Required of each loss if a recipe has several. */
  TENON_LOSS_COUNT_FROM_BATCH = 1u << 0
};

/* Result of `describe`. */
typedef struct tenon_loss_info {
  size_t struct_size;          /* set by the host, which also zeroes the other fields */
  uint32_t additive_over;      /* TENON_ADDITIVE_* */
  uint32_t flags;              /* TENON_LOSS_* */
  const tenon_port* ports_ref; /* [num_ports] lives as long as the instance */
  size_t num_ports;
} tenon_loss_info;
TENON_SEAL(tenon_loss_info, num_ports);

/* Arguments of `count`. Inputs are borrowed until return. */
typedef struct tenon_loss_count_args {
  size_t struct_size;
  /* [num_inputs] In the order of the ports; null if optional and absent. */
  const tenon_tensor* const* inputs;
  size_t num_inputs;
  tenon_tensor* out_count_own; /* result: f64 scalar on exec's device */
} tenon_loss_count_args;
TENON_SEAL(tenon_loss_count_args, out_count_own);

/* Arguments of `compute`. Inputs are borrowed until return. */
typedef struct tenon_loss_compute_args {
  size_t struct_size;
  /* [num_inputs] In the order of the ports; null if optional and absent. */
  const tenon_tensor* const* inputs;
  size_t num_inputs;
  tenon_tensor* out_sum_own; /* result: scalar on exec's device, f32 (f64 in precision fp64) */
} tenon_loss_compute_args;
TENON_SEAL(tenon_loss_compute_args, out_sum_own);

/* Arguments of `backward`. Inputs are borrowed until return. */
typedef struct tenon_loss_backward_args {
  size_t struct_size;
  const tenon_tensor* const* inputs; /* [num_inputs] as for `compute` */
  size_t num_inputs;
  const tenon_tensor* grad_sum; /* scalar: the gradient of the sum */
  /* [num_inputs] Results: each gradient is floating-point and has the shape of its input. Null for
   * an input without gradient. */
  tenon_tensor** grad_inputs_own;
} tenon_loss_backward_args;
TENON_SEAL(tenon_loss_backward_args, grad_inputs_own);

/* Interface TENON_LOSS_ID. */
typedef struct tenon_loss {
  size_t struct_size;

  /* Describes inputs and properties of the loss.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed; its array belongs to the instance
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_loss_info* out);

  /* Counts the items of one microbatch.
   *
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the result
   * Since    0.1 */
  tenon_status* (*count)(void* self, const tenon_exec* exec, tenon_loss_count_args* args);

  /* Sums the loss of one microbatch. Autograd records the call, unless `backward` is set.
   *
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the result
   * Since    0.1 */
  tenon_status* (*compute)(void* self, const tenon_exec* exec, tenon_loss_compute_args* args);

  /* Computes the gradient of the sum with respect to each input, times `grad_sum`. If this pointer
   * is null, autograd computes the gradients.
   *
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step], after `compute` with the same inputs
   * Owner    inputs are borrowed; the host releases the results
   * Since    0.1 */
  tenon_status* (*backward)(void* self,
                            const tenon_exec* exec,
                            const tenon_loss_backward_args* args);
} tenon_loss;

TENON_SEAL(tenon_loss, backward);
TENON_SLOT(tenon_loss, describe, 0);
TENON_SLOT(tenon_loss, count, 1);
TENON_SLOT(tenon_loss, compute, 2);
TENON_SLOT(tenon_loss, backward, 3);

TENON_C_END
#endif
