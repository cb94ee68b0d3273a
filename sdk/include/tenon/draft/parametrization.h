/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a parametrization, which computes a parameter that a block uses from parameters that the
 * host trains. The block receives the *effective* parameter. The host owns the *real* ones: it
 * creates, shards, updates and saves them. Examples are low-rank adapters and quantized weights.
 *
 * There are two forms. `effective` computes the effective parameter W. Its gradient is as large as
 * W. `product` computes x W^T without W. The host uses it for parameters that the model flagged
 * TENON_PARAM_LINEAR.
 *
 * The host creates one instance for each parameter that a pattern in the recipe matches. An
 * instance may have the extension TENON_WEIGHTS_LAYOUT_ID (weights_layout.h) with the layout
 * "peft": names of tensors relative to the module of the parameter, and the fields of
 * adapter_config.json that concern it. */
#ifndef TENON_DRAFT_PARAMETRIZATION_H
#define TENON_DRAFT_PARAMETRIZATION_H

#include "../model.h"

TENON_C_BEGIN

#define TENON_PARAMETRIZATION_ID "tenon.parametrization/1"

/* Result of `describe`. The arrays live as long as the instance. */
typedef struct tenon_parametrization_info {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  /* Real parameters and buffers. Their names are appended to the effective parameter's name, for
   * example ".lora_a", and their `init` is not TENON_INIT_MODULE. The real parameter named "" takes
   * the name of the effective one, and with it its place in weight files; it has the same shape,
   * and starts with the value of the effective parameter. If there is none, the host does not store
   * the effective parameter. */
  const tenon_parameter_spec* reals_ref;
  size_t num_reals;
  /* Of kind TENON_BUFFER_STATE if `start` or `after_update` sets them. */
  const tenon_buffer_spec* buffers_ref;
  size_t num_buffers;
  /* Reserved: ignored by this host. 1: element i of the effective parameter depends only on
   * elements i of the real ones, so shards may be converted before they are gathered. */
  uint32_t elementwise;
  uint32_t reserved;
} tenon_parametrization_info;
TENON_SEAL(tenon_parametrization_info, reserved);

/* Arguments of `start`. */
typedef struct tenon_parametrization_start_args {
  size_t struct_size;
  const tenon_tensor* value;    /* the initial or loaded value of the effective parameter */
  tenon_tensor* const* reals;   /* [num_reals] updated in place */
  tenon_tensor* const* buffers; /* [num_buffers] updated in place */
} tenon_parametrization_start_args;
TENON_SEAL(tenon_parametrization_start_args, buffers);

/* Arguments of `effective`. */
typedef struct tenon_effective_args {
  size_t struct_size;
  const tenon_tensor* const* reals;   /* [num_reals] */
  const tenon_tensor* const* buffers; /* [num_buffers] */
  tenon_tensor* out_own;              /* result: the effective parameter, in its declared shape */
} tenon_effective_args;
TENON_SEAL(tenon_effective_args, out_own);

/* Arguments of `product`. */
typedef struct tenon_product_args {
  size_t struct_size;
  const tenon_tensor* x;              /* [..., D] */
  const tenon_tensor* const* reals;   /* [num_reals] */
  const tenon_tensor* const* buffers; /* [num_buffers] */
  tenon_tensor* out_own;              /* result: x W^T, [..., N] for W [N, D], of the dtype of x */
} tenon_product_args;
TENON_SEAL(tenon_product_args, out_own);

/* Reserved: ignored by this host. Arguments of `backward`. */
typedef struct tenon_effective_backward_args {
  size_t struct_size;
  const tenon_tensor* const* reals;   /* [num_reals] */
  const tenon_tensor* const* buffers; /* [num_buffers] */
  /* Reserved: ignored by this host. Of the shape of the effective parameter. */
  const tenon_tensor* grad_effective;
  /* Reserved: ignored by this host. [num_reals] Results, each of the shape of its real; null for a
   * real without gradient. */
  tenon_tensor** grad_reals_own;
} tenon_effective_backward_args;
TENON_SEAL(tenon_effective_backward_args, grad_reals_own);

/* Reserved: ignored by this host. Arguments of `after_update`. */
typedef struct tenon_after_update_args {
  size_t struct_size;
  const tenon_tensor* const* reals; /* [num_reals] */
  tenon_tensor* const* buffers;     /* [num_buffers] updated in place */
  /* Scalar, f32, or null. If it is 1, the update was not applied, and nothing may change. */
  const tenon_tensor* found_inf;
} tenon_after_update_args;
TENON_SEAL(tenon_after_update_args, found_inf);

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
   * hold the values of their own initialization. All are whole tensors on the CPU.
   *
   * Errors   any error ends the run
   * Threads  [main], after initialization, and after weights without reals were loaded
   * Owner    all arguments are borrowed
   * Since    0.1 */
  tenon_status* (*start)(void* self,
                         const tenon_exec* exec,
                         const tenon_parametrization_start_args* args);

  /* Computes the effective parameter. It is a pure function: the host calls it again for backward,
   * and to export plain weights. Autograd records the call, unless `backward` is set.
   *
   * Errors   TENON_INVALID for reals of other shapes
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the result
   * Since    0.1 */
  tenon_status* (*effective)(void* self, const tenon_exec* exec, tenon_effective_args* args);

  /* Computes the gradients of the reals from the gradient of the effective parameter. If this
   * pointer is null, autograd computes the gradients. This host rejects others.
   *
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the results
   * Since    0.1 */
  tenon_status* (*backward)(void* self,
                            const tenon_exec* exec,
                            const tenon_effective_backward_args* args);

  /* Updates buffers (masks, scales) in place after each update of the reals. Null if there is
   * nothing to update. This host rejects others.
   *
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    all arguments are borrowed
   * Since    0.1 */
  tenon_status* (*after_update)(void* self,
                                const tenon_exec* exec,
                                const tenon_after_update_args* args);

  /* Computes the product of an input with the effective parameter. It is a pure function, which
   * autograd records; under autocast, x has the dtype of autocast. The host calls it only for
   * parameters with TENON_PARAM_LINEAR of blocks without own backward. Null: the host computes the
   * effective parameter and uses that.
   *
   * Errors   TENON_INVALID for reals of other shapes
   * Threads  [step], several times in a forward
   * Owner    inputs are borrowed; the host releases the result
   * Since    0.5 */
  tenon_status* (*product)(void* self, const tenon_exec* exec, tenon_product_args* args);
} tenon_parametrization;

TENON_SEAL(tenon_parametrization, product);
TENON_SLOT(tenon_parametrization, describe, 0);
TENON_SLOT(tenon_parametrization, start, 1);
TENON_SLOT(tenon_parametrization, effective, 2);
TENON_SLOT(tenon_parametrization, backward, 3);
TENON_SLOT(tenon_parametrization, after_update, 4);
TENON_SLOT(tenon_parametrization, product, 5);

TENON_C_END
#endif
