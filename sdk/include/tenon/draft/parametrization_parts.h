/* SPDX-License-Identifier: Apache-2.0
 *
 * Parametrizations of parameters that tensor ranks divide (tensor.h). It is an optional ability of
 * a parametrization: without it, the host refuses to divide the effective parameter.
 *
 * If ranks divide the effective parameter along an axis, they divide the axes of real parameters
 * that follow it in the same way. `describe` and `start` see whole shapes. `effective` and
 * `product` get parts, and run in the divided region: sizes follow from the tensors, and a sum over
 * a divided axis needs `tenon::sum_over`. Buffers are not divided. */
#ifndef TENON_DRAFT_PARAMETRIZATION_PARTS_H
#define TENON_DRAFT_PARAMETRIZATION_PARTS_H

#include "parametrization.h"

TENON_C_BEGIN

#define TENON_PARAMETRIZATION_PARTS_ID "tenon.parametrization_parts/1"

/* Result of `describe`. The array lives as long as the instance. */
typedef struct tenon_parametrization_parts_info {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  /* [num_reals * ndim] for `ndim` axes of the effective parameter. Entry [i * ndim + a] is the axis
   * of real i that follows axis a of the effective parameter, and has its size; TENON_NO_INDEX if
   * each rank has all of real i. Entries of the real "" are ignored: it is divided as the effective
   * parameter. */
  const uint32_t* real_axes_ref;
  /* Bit a: from its parts of the reals, a rank computes its part of the effective parameter, if
   * ranks divide axis a; with `product`, its part of the result or its term of a sum over ranks. 0:
   * ranks cannot divide the effective parameter. */
  uint32_t divisible_axes;
  uint32_t reserved;
} tenon_parametrization_parts_info;
TENON_SEAL(tenon_parametrization_parts_info, reserved);

/* Extension TENON_PARAMETRIZATION_PARTS_ID of a parametrization. */
typedef struct tenon_parametrization_parts {
  size_t struct_size;
  /* Says how ranks may divide what the instance computes.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], after `describe` of the parametrization
   * Owner    `out` is borrowed; the array belongs to the instance
   * Since    0.5 */
  tenon_status* (*describe)(void* self, tenon_parametrization_parts_info* out);
} tenon_parametrization_parts;

TENON_SEAL(tenon_parametrization_parts, describe);
TENON_SLOT(tenon_parametrization_parts, describe, 0);

TENON_C_END
#endif
