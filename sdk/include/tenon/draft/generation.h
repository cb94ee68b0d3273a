/* SPDX-License-Identifier: Apache-2.0
 *
 * Generates sequences with a model, one step at a time. It is an optional ability of a model, for
 * hosts that continue a text (`host --generate`).
 *
 * A step runs the blocks of the model, in order, on new positions only. What a block must know of
 * earlier positions (keys and values of an attention) is in its caches. Caches are arguments and
 * results: the model keeps nothing between calls, and the host may run several sequences in turn.
 * The first axis of a cache counts samples, so the host can repeat or drop samples.
 *
 * A model without this ability can still generate: the host then runs `forward` on the whole
 * sequence for each token. */
#ifndef TENON_DRAFT_GENERATION_H
#define TENON_DRAFT_GENERATION_H

#include "../model.h"

TENON_C_BEGIN

#define TENON_GENERATION_ID "tenon.generation/1"

/* Result of `describe`. Strings and arrays live as long as the instance. */
typedef struct tenon_generation_info {
  size_t struct_size;     /* set by the host, which also zeroes the other fields */
  const char* ids_ref;    /* name of the value that holds token ids, i64 [B, T] */
  const char* logits_ref; /* name of the value that holds logits, [B, T, V] */
  int64_t max_positions;  /* largest number of positions of a sequence */
  /* [num_caches] Block of each cache. A block receives its caches in this order. */
  const uint32_t* cache_blocks_ref;
  size_t num_caches;
} tenon_generation_info;
TENON_SEAL(tenon_generation_info, num_caches);

/* Arguments of `step`: one block on T new positions. Arrays and tensors are borrowed until `step`
 * returns. */
typedef struct tenon_generation_args {
  size_t struct_size;
  uint32_t block; /* index of the block, as the builder returned it */
  uint32_t reserved;
  int64_t first;    /* position of the first new token: number of positions in the caches */
  int64_t capacity; /* positions that the sequence may get, at least first + T; for allocation */
  /* As in tenon_forward_args. Inputs hold the new positions only. */
  const tenon_tensor* const* inputs;
  size_t num_inputs;
  const tenon_tensor* const* parameters;
  size_t num_parameters;
  const tenon_tensor* const* buffers;
  size_t num_buffers;
  /* [num_caches] Caches of this block; null in the first step of a sequence. The block may write
   * into them. */
  tenon_tensor* const* caches;
  size_t num_caches;
  /* [num_outputs] Results: values at the new positions. */
  tenon_tensor** outputs_own;
  size_t num_outputs;
  /* [num_caches] Results; null: the host keeps the cache of `caches`, with what was written. */
  tenon_tensor** next_caches_own;
} tenon_generation_args;
TENON_SEAL(tenon_generation_args, next_caches_own);

/* Extension TENON_GENERATION_ID of a model. */
typedef struct tenon_generation {
  size_t struct_size;
  /* Describes values and caches.
   *
   * Errors   TENON_UNSUPPORTED, with the reason, if options of the model exclude it
   * Threads  [main], after `describe` of the model
   * Owner    `out` is borrowed; strings and array belong to the instance
   * Since    0.5 */
  tenon_status* (*describe)(void* self, tenon_generation_info* out);
  /* Runs one block on new positions, without autograd. The result equals `forward` on the whole
   * sequence, at these positions.
   *
   * Errors   TENON_INVALID for shapes it cannot process or too many positions
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the handles in outputs_own and next_caches_own
   * Since    0.5 */
  tenon_status* (*step)(void* self, const tenon_exec* exec, tenon_generation_args* args);
} tenon_generation;

TENON_SEAL(tenon_generation, step);
TENON_SLOT(tenon_generation, describe, 0);
TENON_SLOT(tenon_generation, step, 1);

TENON_C_END
#endif
