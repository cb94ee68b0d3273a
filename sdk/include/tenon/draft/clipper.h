/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserved: ignored by this host. Defines a gradient clipper. A clipper receives norms, not
 * tensors, and returns factors and a limit, which the host applies. One clipper therefore works for
 * whole and for sharded parameters: the norms are those of whole gradients, over all ranks.
 *
 * Everything stays on the device. A clipper computes on scalars with operators (op.h) and never
 * waits. It saves its state (a moving average of norms) through state.h. Only steps whose update
 * was applied may change the state, as `found_inf` indicates. */
#ifndef TENON_DRAFT_CLIPPER_H
#define TENON_DRAFT_CLIPPER_H

#include "../component.h"

TENON_C_BEGIN

#define TENON_CLIPPER_ID "tenon.clipper/1"

/* Scope of one norm and factor. */
enum {
  TENON_CLIP_ALL = 0,      /* all gradients together, including those of tables */
  TENON_CLIP_GROUP = 1,    /* each group of the optimizer, and each table */
  TENON_CLIP_PARAMETER = 2 /* each parameter, and each table */
};
/* Norm that the clipper needs. */
enum {
  TENON_NORM_L1 = 0,
  TENON_NORM_L2 = 1,
  TENON_NORM_MAX = 2, /* largest magnitude */
  TENON_NORM_NONE = 3 /* none: limits only */
};

/* Result of `describe`. */
typedef struct tenon_clipper_info {
  size_t struct_size;             /* set by the host, which also zeroes the other fields */
  uint32_t scope;                 /* TENON_CLIP_* */
  uint32_t norm;                  /* TENON_NORM_*, in fp32 (fp64 in precision fp64) */
  uint32_t wants_parameter_norms; /* 1: also the norm of the parameter values */
  uint32_t sets_limit;            /* 1: `clip` sets out_limits_own */
} tenon_clipper_info;
TENON_SEAL(tenon_clipper_info, sets_limit);

/* Arguments of `clip`. Inputs are borrowed until return. */
typedef struct tenon_clip_args {
  size_t struct_size;
  size_t num_scopes;
  /* [num_scopes] Names of groups, parameters and tables; "" for TENON_CLIP_ALL. */
  const char* const* names;
  /* [num_scopes] Norms of normalized gradients; null for TENON_NORM_NONE. */
  const tenon_tensor* grad_norms;
  const tenon_tensor* parameter_norms; /* [num_scopes], or null if not requested */
  /* Scalar, f32: 1 if a gradient is non-finite; the update is then skipped. */
  const tenon_tensor* found_inf;
  /* Results: each gradient is multiplied by its factor and then clamped to [-limit, limit]. Null
   * handles mean factor 1 and no limit. */
  tenon_tensor* out_factors_own; /* [num_scopes], of the dtype of the norms */
  tenon_tensor* out_limits_own;  /* [num_scopes] */
} tenon_clip_args;
TENON_SEAL(tenon_clip_args, out_limits_own);

/* Interface TENON_CLIPPER_ID. */
typedef struct tenon_clipper {
  size_t struct_size;
  /* Describes scope and norm.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed until return
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_clipper_info* out);
  /* Computes factors and limits for one step. They must be equal on all ranks, as the norms are.
   *
   * Shapes   as in tenon_clip_args, on exec's device
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the two results
   * Since    0.1 */
  tenon_status* (*clip)(void* self, const tenon_exec* exec, tenon_clip_args* args);
} tenon_clipper;

TENON_SEAL(tenon_clipper, clip);
TENON_SLOT(tenon_clipper, describe, 0);
TENON_SLOT(tenon_clipper, clip, 1);

TENON_C_END
#endif
