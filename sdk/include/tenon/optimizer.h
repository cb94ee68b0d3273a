/* SPDX-License-Identifier: Apache-2.0
 *
 * An optimizer of dense parameters. The host creates one instance for each parameter group, with
 * the group's own options; allocates, shards, saves and reshards its slots; clips and schedules.
 * The optimizer applies one formula.
 *
 * Its options must have a number "lr": the host reads it, multiplies it by schedule and factor, and
 * hands the product over; what the instance itself does with "lr" is nothing. Parameters flagged
 * no_decay come in a group whose option "weight_decay" is 0, if the schema has that key. */
#ifndef TENON_OPTIMIZER_H
#define TENON_OPTIMIZER_H

#include "component.h"

TENON_C_BEGIN

#define TENON_OPTIMIZER_ID "tenon.optimizer/1"

/* What one call needs to see. */
enum {
  TENON_OPTIMIZER_ELEMENTWISE =
      0,                      /* any flat piece of parameters: the host merges and shards freely */
  TENON_OPTIMIZER_MATRIX = 1, /* whole parameters in their shapes (Muon, Shampoo) */
  TENON_OPTIMIZER_NORM = 2    /* flat pieces, and norms over whole parameters (LAMB) */
};

enum {
  TENON_SLOT_LIKE_PARAMETER = 0, /* one number an element */
  TENON_SLOT_SCALAR = 1          /* one number a piece */
};

typedef struct tenon_slot_spec {
  size_t struct_size;
  const char* name; /* "exp_avg" */
  uint32_t shape;   /* TENON_SLOT_* */
  uint32_t dtype;   /* a dtype, or TENON_CLASS_PARAM (ports.h) */
  double init;
} tenon_slot_spec;
TENON_SEAL(tenon_slot_spec, init);

typedef struct tenon_optimizer_info {
  size_t struct_size; /* set by the host, who also zeroes the rest */
  uint32_t needs;
  uint32_t reserved;
  const tenon_slot_spec* slots_ref; /* lives as long as the instance */
  size_t num_slots;
} tenon_optimizer_info;
TENON_SEAL(tenon_optimizer_info, num_slots);

/* One update of n pieces of parameters; all tensors of a piece have one shape and are changed in
 * place. Pieces without a gradient are left out, so that they are not touched. */
typedef struct tenon_update_args {
  size_t struct_size;
  size_t num_pieces;
  tenon_tensor* const* parameters;  /* [n] */
  const tenon_tensor* const* grads; /* [n], final: normalised and clipped */
  tenon_tensor* const* slots;       /* [num_slots * n]: slot s of piece i is slots[s * n + i] */
  const tenon_tensor* const*
      steps; /* [n] scalars f32: updates applied to the piece, this one included, from 1 */
  const tenon_tensor* lr;        /* scalar f64 */
  const tenon_tensor* found_inf; /* scalar f32, or null. Where it is 1, nothing may change, slots
                                    included; `steps` then have not advanced */
} tenon_update_args;
TENON_SEAL(tenon_update_args, found_inf);

typedef struct tenon_optimizer {
  size_t struct_size;
  /* Threads [main], once, before any other call  Since 0.1 */
  tenon_status* (*describe)(void* self, tenon_optimizer_info* out);
  /* Applies the update; not recorded by autograd.
   * Shapes   as above, on exec's device
   * Threads  [step]
   * Owner    all tensors are borrowed
   * Since    0.1 */
  tenon_status* (*update)(void* self, const tenon_exec* exec, const tenon_update_args* args);
} tenon_optimizer;
TENON_SEAL(tenon_optimizer, update);
TENON_SLOT(tenon_optimizer, describe, 0);
TENON_SLOT(tenon_optimizer, update, 1);

TENON_C_END
#endif
