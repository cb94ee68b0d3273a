/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines an optimizer for dense parameters. The host creates one instance per parameter group,
 * with the group's options. It allocates, shards, saves and reshards the optimizer state, clips
 * gradients and schedules the learning rate. The optimizer applies one formula.
 *
 * The options must include a number "lr". The host reads it, multiplies it by schedule and factor,
 * and passes the product to `update`; the instance itself ignores "lr". Parameters flagged no_decay
 * are in a group whose option "weight_decay" is 0, if the schema has that key. */
#ifndef TENON_OPTIMIZER_H
#define TENON_OPTIMIZER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_OPTIMIZER_ID "tenon.optimizer/1"

/* Granularity of an update: what one call must see. */
enum {
  /* Any flat range of parameters; the host merges and shards freely. */
  TENON_OPTIMIZER_ELEMENTWISE = 0,
  TENON_OPTIMIZER_MATRIX = 1, /* whole parameters in their shapes (Muon, Shampoo) */
  TENON_OPTIMIZER_NORM = 2    /* flat ranges, plus norms over whole parameters (LAMB) */
};

/* Shape of a state tensor (slot). */
enum {
  TENON_SLOT_LIKE_PARAMETER = 0, /* one value per element */
  TENON_SLOT_SCALAR = 1,         /* one value per piece */
  /* One value per `block` consecutive elements of the parameter, rounded up. Not for MATRIX. Since
   * 0.5 */
  TENON_SLOT_BLOCKWISE = 2,
  /* Only for MATRIX: the shape of the parameter without its last axis, or without the axis before
   * the last. A parameter with fewer than two axes has ROWS of one value, without axes, and COLUMNS
   * of its own shape. Since 0.5 */
  TENON_SLOT_ROWS = 3,
  TENON_SLOT_COLUMNS = 4
};

/* Flags of an optimizer. */
enum {
  /* It needs no falling learning rate: the host accepts only schedules that are constant after a
   * warmup. Since 0.5 */
  TENON_OPTIMIZER_OWN_SCHEDULE = 1u << 0,
  /* Only for MATRIX: parameters have exactly two axes. The host refuses others by name, before the
   * first step. Since 0.5 */
  TENON_OPTIMIZER_MATRICES_ONLY = 1u << 1
};

/* Declares one tensor of optimizer state per piece. */
typedef struct tenon_slot_spec {
  size_t struct_size;
  const char* name; /* unique in the optimizer, for example "exp_avg" */
  uint32_t shape;   /* TENON_SLOT_* */
  uint32_t dtype;   /* a dtype, or TENON_CLASS_PARAM (ports.h) */
  double init;      /* initial value of every element */
} tenon_slot_spec;
TENON_SEAL(tenon_slot_spec, init);

/* Result of `describe`. */
typedef struct tenon_optimizer_info {
  size_t struct_size;               /* set by the host, which also zeroes the other fields */
  uint32_t needs;                   /* TENON_OPTIMIZER_ELEMENTWISE, _MATRIX or _NORM */
  uint32_t flags;                   /* flags, TENON_OPTIMIZER_OWN_SCHEDULE */
  const tenon_slot_spec* slots_ref; /* [num_slots] lives as long as the instance */
  size_t num_slots;
  /* Elements of a block, or 0. Every piece starts at a multiple of `block` elements of its
   * parameter, so that blocks do not depend on the number of ranks. Since 0.5 */
  int64_t block;
} tenon_optimizer_info;
TENON_SEAL(tenon_optimizer_info, block);

/* Arguments of `update`: n = num_pieces pieces of parameters. All tensors of a piece have one shape
 * and are updated in place. Pieces without a gradient are omitted and stay unchanged. */
typedef struct tenon_update_args {
  size_t struct_size;
  size_t num_pieces;
  tenon_tensor* const* parameters; /* [n] */
  /* [n], normalized and clipped, of the dtype of the parameter. */
  const tenon_tensor* const* grads;
  tenon_tensor* const* slots; /* [num_slots * n]: slot s of piece i is slots[s * n + i] */
  /* [n] Scalars, f32: number of updates of the piece, including this one, from 1. */
  const tenon_tensor* const* steps;
  const tenon_tensor* lr; /* scalar, f64: the scheduled learning rate */
  /* Scalar, f32, or null. If it is 1, change nothing, including slots; `steps` have not advanced.
   */
  const tenon_tensor* found_inf;
} tenon_update_args;
TENON_SEAL(tenon_update_args, found_inf);

/* Arguments of `evaluation_values`: pieces as in tenon_update_args. */
typedef struct tenon_evaluation_values_args {
  size_t struct_size;
  size_t num_pieces;
  /* [n] On entry, the values of training; on return, those of evaluation. */
  tenon_tensor* const* parameters;
  const tenon_tensor* const* slots; /* [num_slots * n] unchanged */
  const tenon_tensor* const* steps; /* [n] Scalars, f32: number of updates of the piece */
} tenon_evaluation_values_args;
TENON_SEAL(tenon_evaluation_values_args, steps);

/* Interface TENON_OPTIMIZER_ID. */
typedef struct tenon_optimizer {
  size_t struct_size;
  /* Describes granularity and optimizer state.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed; its array belongs to the instance
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_optimizer_info* out);
  /* Applies one update. Autograd does not record it.
   *
   * Shapes   as in tenon_update_args, on exec's device
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return
   * Since    0.1 */
  tenon_status* (*update)(void* self, const tenon_exec* exec, const tenon_update_args* args);
  /* Replaces the values at which gradients are computed by those to evaluate and to export (an
   * average), for an optimizer in which they differ. The host calls it before each evaluation and
   * export, and then restores the values of training to the bit. Checkpoints hold the values of
   * training. Null: both are the same.
   *
   * Shapes   as in tenon_evaluation_values_args, on exec's device
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return
   * Since    0.5 */
  tenon_status* (*evaluation_values)(void* self,
                                     const tenon_exec* exec,
                                     const tenon_evaluation_values_args* args);
} tenon_optimizer;
TENON_SEAL(tenon_optimizer, evaluation_values);
TENON_SLOT(tenon_optimizer, describe, 0);
TENON_SLOT(tenon_optimizer, update, 1);
TENON_SLOT(tenon_optimizer, evaluation_values, 2);

TENON_C_END
#endif
