/* SPDX-License-Identifier: Apache-2.0
 *
 * A parametrization: puts something between a parameter that a block uses and those that the host
 * trains. The block gets the *effective* parameter and knows nothing of it; the host owns the
 * *real* ones (creates, shards, updates, saves). Low-rank adapters, pruning masks and float8
 * storage are of this kind.
 *
 * The host creates one instance for each parameter that a recipe's pattern matches. */
#ifndef TENON_DRAFT_PARAMETRIZATION_H
#define TENON_DRAFT_PARAMETRIZATION_H

#include "../model.h"

TENON_C_BEGIN

#define TENON_PARAMETRIZATION_ID "tenon.parametrization/1"

typedef struct tenon_parametrization_info {
  size_t struct_size; /* set by the host, who also zeroes the rest */
  /* The real parameters and the buffers. Names are appended to the effective one's: ".lora_a"; the
   * real parameter named
   * "" takes the effective one's name, and with it its place in weight files. Live as long as the
   * instance. */
  const tenon_parameter_spec* reals_ref;
  size_t num_reals;
  const tenon_buffer_spec* buffers_ref;
  size_t num_buffers;
  uint32_t elementwise; /* element i of the effective one depends on elements i of the reals alone:
                           slices may be converted by themselves, before they are gathered */
  uint32_t reserved;
} tenon_parametrization_info;
TENON_SEAL(tenon_parametrization_info, reserved);

typedef struct tenon_parametrization {
  size_t struct_size;

  /* Declares the real parameters of the parameter `effective`, which is as the model declared it.
   * Errors   TENON_UNSUPPORTED for a parameter it cannot stand in for, with the reason
   * Threads  [main], once, before any other call
   * Since    0.1 */
  tenon_status* (*describe)(void* self,
                            const tenon_parameter_spec* effective,
                            tenon_parametrization_info* out);

  /* Sets reals and buffers so that the effective parameter starts as `value`. Reals hold what their
   * own initialisers made. Shapes   value as the effective parameter; reals and buffers as
   * declared, changed in place Threads  [main], after initialisation, and after weights without
   * reals were loaded Owner    borrowed Since    0.1 */
  tenon_status* (*start)(void* self,
                         const tenon_exec* exec,
                         const tenon_tensor* value,
                         tenon_tensor* const* reals,
                         tenon_tensor* const* buffers);

  /* The effective parameter, of the declared shape. A pure function: it runs again for backward,
   * and once more wherever plain weights are exported. Errors   TENON_INVALID for reals of other
   * shapes Threads  [step]; recorded by autograd, unless `backward` is there Owner    reals and
   * buffers are borrowed; the host releases *out_own Since    0.1 */
  tenon_status* (*effective)(void* self,
                             const tenon_exec* exec,
                             const tenon_tensor* const* reals,
                             const tenon_tensor* const* buffers,
                             tenon_tensor** out_own);

  /* Hand-written gradient: from that of the effective parameter to those of the reals; null for a
   * real that gets none. The pointer is null where autograd does it. Threads [step]  Owner the host
   * releases what is put into grad_reals_own  Since 0.1 */
  tenon_status* (*backward)(void* self,
                            const tenon_exec* exec,
                            const tenon_tensor* const* reals,
                            const tenon_tensor* const* buffers,
                            const tenon_tensor* grad_effective,
                            tenon_tensor** grad_reals_own);

  /* Called after each update of the reals, to renew buffers (masks, scales) in place. `found_inf`
   * is 1 where the update was not applied; nothing may change then. Null if there is nothing to
   * renew. Threads [step]  Owner borrowed  Since 0.1 */
  tenon_status* (*after_update)(void* self,
                                const tenon_exec* exec,
                                const tenon_tensor* const* reals,
                                tenon_tensor* const* buffers,
                                const tenon_tensor* found_inf);
} tenon_parametrization;

TENON_SEAL(tenon_parametrization, after_update);
TENON_SLOT(tenon_parametrization, describe, 0);
TENON_SLOT(tenon_parametrization, start, 1);
TENON_SLOT(tenon_parametrization, effective, 2);
TENON_SLOT(tenon_parametrization, backward, 3);
TENON_SLOT(tenon_parametrization, after_update, 4);

TENON_C_END
#endif
