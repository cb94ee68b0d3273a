/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserved: ignored by this host. Defines a parametrization, which computes a parameter that a
 * block uses from parameters that the host trains. The block receives the *effective* parameter.
 * The host owns the *real* ones: it creates, shards, updates and saves them. Examples are low-rank
 * adapters, pruning masks and float8 storage.
 *
 * The host creates one instance for each parameter that a pattern in the recipe matches. */
#ifndef TENON_DRAFT_PARAMETRIZATION_H
#define TENON_DRAFT_PARAMETRIZATION_H

#include "../model.h"

TENON_C_BEGIN

#define TENON_PARAMETRIZATION_ID "tenon.parametrization/1"

/* Result of `describe`. The arrays live as long as the instance. */
typedef struct tenon_parametrization_info {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  /* Real parameters and buffers. Their names are appended to the effective parameter's name, for
   * example ".lora_a". The real parameter named "" takes the name of the effective one, and with it
   * its place in weight files. */
  const tenon_parameter_spec* reals_ref;
  size_t num_reals;
  const tenon_buffer_spec* buffers_ref;
  size_t num_buffers;
  /* 1: element i of the effective parameter depends only on elements i of the real ones, so shards
   * may be converted before they are gathered. */
  uint32_t elementwise;
  uint32_t reserved;
} tenon_parametrization_info;
TENON_SEAL(tenon_parametrization_info, reserved);

/* Interface TENON_PARAMETRIZATION_ID. */
typedef struct tenon_parametrization {
  size_t struct_size;

  /* Declares the real parameters of the parameter `effective`, which is as the model declared it.
   *
   * Errors   TENON_UNSUPPORTED, with the reason, for a parameter that it cannot replace
   * Threads  [main], once, before any other call
   * Owner    arguments are borrowed; the arrays of `out` belong to the instance
   * Since    0.1 */
  tenon_status* (*describe)(void* self,
                            const tenon_parameter_spec* effective,
                            tenon_parametrization_info* out);

  /* Initializes reals and buffers so that the effective parameter equals `value`. On entry, reals
   * hold the values of their own initialization.
   *
   * Shapes   value: that of the effective parameter; reals and buffers: as declared, updated in
   *          place
   * Errors   any error ends the run
   * Threads  [main], after initialization, and after weights without reals were loaded
   * Owner    all arguments are borrowed
   * Since    0.1 */
  tenon_status* (*start)(void* self,
                         const tenon_exec* exec,
                         const tenon_tensor* value,
                         tenon_tensor* const* reals,
                         tenon_tensor* const* buffers);

  /* Computes the effective parameter. It is a pure function: the host calls it again for backward,
   * and to export plain weights. Autograd records the call, unless `backward` is set.
   *
   * Shapes   *out_own: the declared shape
   * Errors   TENON_INVALID for reals of other shapes
   * Threads  [step]
   * Owner    reals and buffers are borrowed; the host releases *out_own
   * Since    0.1 */
  tenon_status* (*effective)(void* self,
                             const tenon_exec* exec,
                             const tenon_tensor* const* reals,
                             const tenon_tensor* const* buffers,
                             tenon_tensor** out_own);

  /* Computes the gradients of the reals from the gradient of the effective parameter; null for a
   * real without gradient. If this pointer is null, autograd computes the gradients.
   *
   * Shapes   each gradient has the shape of its real
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the handles in grad_reals_own
   * Since    0.1 */
  tenon_status* (*backward)(void* self,
                            const tenon_exec* exec,
                            const tenon_tensor* const* reals,
                            const tenon_tensor* const* buffers,
                            const tenon_tensor* grad_effective,
                            tenon_tensor** grad_reals_own);

  /* Updates buffers (masks, scales) in place after each update of the reals. If `found_inf` is 1,
   * the update was not applied, and nothing may change. Null if there is nothing to update.
   *
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    all arguments are borrowed
   * Since    0.1 */
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
