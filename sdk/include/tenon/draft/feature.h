/* SPDX-License-Identifier: Apache-2.0
 *
 * A feature transform: a pure function from columns of a batch to columns (hash, bucketize, cross,
 * truncate). A recipe chains them ("do"); the host computes equal chains once, and hands all
 * instances of one type that are ready at the same time to one call, so that a type may fuse them.
 *
 * Learnt tables are not features: a feature gives ids, and a table's lookup is an edge of the
 * model's graph. */
#ifndef TENON_DRAFT_FEATURE_H
#define TENON_DRAFT_FEATURE_H

#include "../component.h"
#include "../ports.h"

TENON_C_BEGIN

#define TENON_FEATURE_ID "tenon.feature/1"

/* What is known of a column before there is data. */
typedef struct tenon_column_type {
  size_t struct_size;  /* set by the caller */
  uint32_t dtype;      /* of the values; TENON_U8 with is_text set means bytes of text */
  uint32_t num_levels; /* 0: one entry a sample; 1: a list of entries a sample; and so on */
  uint32_t is_text;    /* the innermost level cuts bytes into strings */
  uint32_t has_weights;
} tenon_column_type;
TENON_SEAL(tenon_column_type, has_weights);

/* A column of B samples. offsets[0] is [B + 1] and cuts what lies below it into samples; offsets[l]
 * cuts what lies below into the pieces of level l - 1. All offsets start with 0, do not fall, and
 * end with the number of pieces or values below.
 *
 *     samples {"ab", "c"} and {}   as text in lists:
 *     values u8 "abc"   offsets[0] = 0 2 2   offsets[1] = 0 2 3 */
typedef struct tenon_column {
  size_t struct_size;
  const tenon_tensor* values; /* [entries], contiguous; of a column without levels [B, ...] */
  const tenon_tensor* const* offsets; /* [num_levels] of i64 */
  size_t num_levels;
  /* [entries] f32 (entries of text are strings), or null, which means 1 each. */
  const tenon_tensor* weights;
} tenon_column;
TENON_SEAL(tenon_column, weights);

/* What a transform hands over. All handles are null at the call. */
typedef struct tenon_column_out {
  size_t struct_size;
  tenon_tensor* values_own;
  tenon_tensor** offsets_own; /* [num_levels] as `infer` said; room is the host's */
  size_t num_levels;
  tenon_tensor* weights_own;
} tenon_column_out;
TENON_SEAL(tenon_column_out, weights_own);

typedef struct tenon_feature_call {
  size_t struct_size;
  void* self;
  const tenon_column* inputs;
  size_t num_inputs;
  tenon_column_out* outputs;
  size_t num_outputs;
} tenon_feature_call;
TENON_SEAL(tenon_feature_call, num_outputs);

typedef struct tenon_feature {
  size_t struct_size;

  /* Types of the outputs from those of the inputs. *io_num_outputs holds the room in `outputs` and
   * receives their number.
   * Errors   TENON_INVALID for a number or a type of inputs that it does not take, saying which it
   * does Threads  [main], once, before `run` Since    0.1 */
  tenon_status* (*infer)(void* self,
                         const tenon_column_type* inputs,
                         size_t num_inputs,
                         tenon_column_type* outputs,
                         size_t* io_num_outputs);

  /* Runs n calls, of n instances of this type, which do not depend on each other. An output may be
   * an input handed on: another handle of the same tensor (`retain`).
   *
   * Shapes   all columns of a call have the same B, and so do its outputs
   * Errors   TENON_INVALID for values it cannot take, naming the first and its sample. Handles
   * already put into outputs are released by the host Threads  [worker]: several at once, also for
   * one instance; no random numbers but by tenon.random/1 Owner    inputs are borrowed; the host
   * releases the outputs Since    0.1 */
  tenon_status* (*run)(const tenon_exec* exec, tenon_feature_call* calls, size_t n);
} tenon_feature;

TENON_SEAL(tenon_feature, run);
TENON_SLOT(tenon_feature, infer, 0);
TENON_SLOT(tenon_feature, run, 1);

TENON_C_END
#endif
