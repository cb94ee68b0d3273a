/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a feature transform: a pure function from columns of a batch to columns (hash, bucketize,
 * cross, truncate). Recipes chain transforms ("do"). The host computes equal chains once. It passes
 * all instances of one type that are ready at the same time to one call, so that a type can fuse
 * them.
 *
 * Trained tables are not features. A feature produces ids; the lookup in a table is an edge of the
 * model's graph. */
#ifndef TENON_FEATURE_H
#define TENON_FEATURE_H

#include "component.h"
#include "exec.h"

TENON_C_BEGIN

#define TENON_FEATURE_ID "tenon.feature/1"

/* In each array of structs below, elements are spaced by the struct_size of the first. */

/* Static type of a column. */
typedef struct tenon_column_type {
  size_t struct_size; /* set by the host */
  uint32_t dtype;     /* dtype of the values; TENON_U8 if is_text is set */
  /* 0: the same number of entries in each sample; 1: a list of entries per sample; 2: a list of
   * lists. Text has one more level, which splits bytes into strings. */
  uint32_t num_levels;
  uint32_t is_text;     /* 1: values are bytes of text */
  uint32_t has_weights; /* 1: each entry has a weight; never with num_levels 0, or 1 for text */
  /* With num_levels 0: 0 for values [B], n for [B, n], -1 for [B, any]; otherwise 0. */
  int64_t width;
} tenon_column_type;
TENON_SEAL(tenon_column_type, width);

/* A column of B samples, on the CPU. offsets[0] has B + 1 elements and splits the level below into
 * samples; offsets[l] splits the level below into the pieces of level l - 1. Each offsets tensor
 * starts at 0, never decreases, and ends with the number of pieces or values below. The host has
 * validated all this.
 *
 *     samples {"ab", "c"} and {}   as lists of strings:
 *     values u8 "abc"   offsets[0] = 0 2 2   offsets[1] = 0 2 3 */
typedef struct tenon_column {
  size_t struct_size;
  const tenon_tensor* values;         /* [entries], contiguous; without levels [B] or [B, n] */
  const tenon_tensor* const* offsets; /* [num_levels] i64, contiguous */
  size_t num_levels;
  /* [entries] f32, one per entry (for text: per string); null if all weights are 1 */
  const tenon_tensor* weights;
} tenon_column;
TENON_SEAL(tenon_column, weights);

/* Receives one output column. All handles are null on entry; the transform stores new handles, with
 * the type that `infer` returned. */
typedef struct tenon_column_out {
  size_t struct_size;
  /* As tenon_column::values, contiguous, on the CPU; required. */
  tenon_tensor* values_own;
  /* [num_levels] as tenon_column::offsets; all required. The host provides the array. */
  tenon_tensor** offsets_own;
  size_t num_levels;
  /* f32 [entries], as tenon_column::weights. Required if `infer` set has_weights; otherwise leave
   * it null. */
  tenon_tensor* weights_own;
} tenon_column_out;
TENON_SEAL(tenon_column_out, weights_own);

/* One call of one instance. */
typedef struct tenon_feature_call {
  size_t struct_size;
  void* self;                 /* the instance */
  const tenon_column* inputs; /* [num_inputs] */
  size_t num_inputs;
  tenon_column_out* outputs; /* [num_outputs] */
  size_t num_outputs;
} tenon_feature_call;
TENON_SEAL(tenon_feature_call, num_outputs);

/* Interface TENON_FEATURE_ID. */
typedef struct tenon_feature {
  size_t struct_size;

  /* Infers the output types from the input types.
   *
   * Shapes   inputs [num_inputs]; *io_num_outputs holds the capacity of `outputs` and receives the
   *          number of outputs, at least 1
   * Errors   TENON_INVALID for a number or type of inputs that it does not accept, stating what it
   *          accepts
   * Threads  [main], once, before `run`
   * Owner    all arguments are borrowed until return
   * Since    0.1 */
  tenon_status* (*infer)(void* self,
                         const tenon_column_type* inputs,
                         size_t num_inputs,
                         tenon_column_type* outputs,
                         size_t* io_num_outputs);

  /* Runs n calls, for n instances of this type, which do not depend on each other. An output may be
   * an input passed on, as another handle of the same tensor (`retain`). Equal inputs must give
   * equal outputs, whenever and however often the host calls. Of `exec`, only device (the CPU),
   * mesh and services are meaningful.
   *
   * Shapes   all input and output columns of a call have the same B, which may be 0
   * Errors   TENON_INVALID for values it cannot process, naming the first one and its sample. The
   *          host releases the handles that are already stored, then repeats the calls one by one
   *          to find the instance that failed
   * Threads  [worker]: several calls concurrently, also for one instance
   * Owner    inputs are borrowed; the host releases the outputs
   * Since    0.1 */
  tenon_status* (*run)(const tenon_exec* exec, tenon_feature_call* calls, size_t n);
} tenon_feature;

TENON_SEAL(tenon_feature, run);
TENON_SLOT(tenon_feature, infer, 0);
TENON_SLOT(tenon_feature, run, 1);

TENON_C_END
#endif
