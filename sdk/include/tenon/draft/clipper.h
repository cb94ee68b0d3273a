/* SPDX-License-Identifier: Apache-2.0
 *
 * A gradient clipper: sees norms, not tensors, and answers with factors and a limit, which the host
 * applies. So one clipper serves whole and sharded parameters alike: norms are those of whole
 * gradients, over all ranks, when it sees them.
 *
 * Everything stays on the device: a clipper computes on scalars by operators (op.h), and nothing
 * waits. State (a moving average of norms) goes through state.h; only steps whose update was
 * applied may change it, and `found_inf` says so. */
#ifndef TENON_DRAFT_CLIPPER_H
#define TENON_DRAFT_CLIPPER_H

#include "../component.h"

TENON_C_BEGIN

#define TENON_CLIPPER_ID "tenon.clipper/1"

/* Over what a norm is taken, and a factor applied. */
enum {
  TENON_CLIP_ALL = 0,      /* one scope: all gradients, of tables too */
  TENON_CLIP_GROUP = 1,    /* one for each group of the optimizer, and for each table */
  TENON_CLIP_PARAMETER = 2 /* one for each parameter, and for each table */
};
enum {
  TENON_NORM_L1 = 0,
  TENON_NORM_L2 = 1,
  TENON_NORM_MAX = 2, /* largest magnitude */
  TENON_NORM_NONE = 3 /* needs none: limits only */
};

typedef struct tenon_clipper_info {
  size_t struct_size;             /* set by the host, who also zeroes the rest */
  uint32_t scope;                 /* TENON_CLIP_* */
  uint32_t norm;                  /* TENON_NORM_*, in fp32 (fp64 under precision fp64) */
  uint32_t wants_parameter_norms; /* the same norm of the values, for clipping relative to them */
  uint32_t sets_limit;            /* `out_limits_own` is given */
} tenon_clipper_info;
TENON_SEAL(tenon_clipper_info, sets_limit);

typedef struct tenon_clip_args {
  size_t struct_size;
  size_t num_scopes;
  /* [num_scopes] of groups, parameters, tables; "" for the one of TENON_CLIP_ALL. */
  const char* const* names;
  /* [num_scopes], of normalised gradients; null for TENON_NORM_NONE. */
  const tenon_tensor* grad_norms;
  const tenon_tensor* parameter_norms; /* [num_scopes], or null */
  /* Scalar f32: 1 where a gradient is not finite; the update is then skipped. */
  const tenon_tensor* found_inf;
  /* Each gradient is multiplied by its factor, and then held within [-limit, limit]. Null handles
   * mean 1 and infinity. */
  tenon_tensor* out_factors_own; /* [num_scopes], of the dtype of the norms */
  tenon_tensor* out_limits_own;  /* [num_scopes] */
} tenon_clip_args;
TENON_SEAL(tenon_clip_args, out_limits_own);

typedef struct tenon_clipper {
  size_t struct_size;
  /* Threads [main], once, before any other call  Since 0.1 */
  tenon_status* (*describe)(void* self, tenon_clipper_info* out);
  /* Answers for one step. Factors must be the same on all ranks, as the norms are.
   * Shapes   as above, on exec's device
   * Threads  [step]
   * Owner    what is handed in is borrowed; the host releases the two results
   * Since    0.1 */
  tenon_status* (*clip)(void* self, const tenon_exec* exec, tenon_clip_args* args);
} tenon_clipper;

TENON_SEAL(tenon_clipper, clip);
TENON_SLOT(tenon_clipper, describe, 0);
TENON_SLOT(tenon_clipper, clip, 1);

TENON_C_END
#endif
