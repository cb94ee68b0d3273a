/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over a step: over all its microbatches and ranks. It is an optional ability of a model whose
 * results must not depend on how the samples of a step are divided: counts of buffers, and losses
 * that balance experts.
 *
 * A buffer is summed if `describe` lists it. Its block returns it in `next_buffers_own`, as usual:
 *
 *   kind of the buffer     a forward reads             a forward returns   at the end of the step
 *   TENON_BUFFER_STATE     its value before the step   its next value      the increments of all
 *                                                                          forwards are added to it
 *   TENON_BUFFER_CONSTANT  its initial value           what to add         `end_step` reads the sum
 *
 * The host adds integers in i64, and other numbers in f64. */
#ifndef TENON_DRAFT_STEP_SUMS_H
#define TENON_DRAFT_STEP_SUMS_H

#include "../model.h"

TENON_C_BEGIN

#define TENON_STEP_SUMS_ID "tenon.step_sums/1"

/* Result of `describe`. Arrays live as long as the instance.
 *
 * A balance loss is an auxiliary loss over the experts of a step:
 *
 *     weight * X * sum_i f_i P_i,   f_i = loads_i / tokens,   P_i = shares_i / tokens
 *
 * loads, shares and tokens are sums over the step. The gradient flows through `shares`. A block
 * adds its part with `add_loss`: `sum` is its shares, [X], with their gradient, and `count` is
 * [X + 1] i64, its loads and then its number of tokens. The host needs the loads of a step before
 * the first backward. If a step has several microbatches, the host therefore runs them forward once
 * more.
 * Source: Fedus et al., Switch Transformers (JMLR 2022), equation 4; loads of a whole step: Qiu et
 * al., Demons in the Detail (2025), arXiv:2501.11873. */
typedef struct tenon_step_sums_info {
  size_t struct_size;          /* set by the host, which also zeroes the other fields */
  const uint32_t* buffers_ref; /* [num_buffers] summed buffers, as the builder numbered them */
  size_t num_buffers;
  /* [num_balances] Block and X of each balance loss, in the order of blocks and of calls. */
  const uint32_t* balance_blocks_ref;
  const int64_t* balance_experts_ref;
  size_t num_balances;
} tenon_step_sums_info;
TENON_SEAL(tenon_step_sums_info, num_balances);

/* Arguments of `end_step`. Arrays and tensors are borrowed until `end_step` returns. */
typedef struct tenon_end_step_args {
  size_t struct_size;
  uint32_t block; /* index of the block, as the builder returned it */
  uint32_t reserved;
  /* [num_buffers] In the order of the block's spec. */
  const tenon_tensor* const* buffers;
  size_t num_buffers;
  /* [num_buffers] Results: next values of TENON_BUFFER_STATE buffers; null keeps the value. */
  tenon_tensor** next_buffers_own;
} tenon_end_step_args;
TENON_SEAL(tenon_end_step_args, next_buffers_own);

/* Extension TENON_STEP_SUMS_ID of a model. */
typedef struct tenon_step_sums {
  size_t struct_size;
  /* Names what is summed.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], after `describe` of the model
   * Owner    `out` is borrowed; arrays belong to the instance
   * Since    0.5 */
  tenon_status* (*describe)(void* self, tenon_step_sums_info* out);
  /* Computes state buffers of a block from the sums of a step. Called once a training step for each
   * block with a summed buffer, with the same arguments on all ranks. Optional: null if no buffer
   * depends on a sum.
   *
   * Errors   any error ends the run
   * Threads  [step], after the last backward of a step
   * Owner    the host releases the handles in next_buffers_own
   * Since    0.5 */
  tenon_status* (*end_step)(void* self, const tenon_exec* exec, tenon_end_step_args* args);
} tenon_step_sums;

TENON_SEAL(tenon_step_sums, end_step);
TENON_SLOT(tenon_step_sums, describe, 0);
TENON_SLOT(tenon_step_sums, end_step, 1);

TENON_C_END
#endif
