/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a metric: named values computed over many batches (accuracy, AUC). Its state is a set of
 * named tensors, which the host owns. The host creates the tensors, passes them to `update`, merges
 * them across ranks and data ranges as declared, saves them, and resets them. States are merged,
 * never averaged, and a metric is a set of pure functions. */
#ifndef TENON_METRIC_H
#define TENON_METRIC_H

#include "component.h"
#include "exec.h"
#include "ports.h"

TENON_C_BEGIN

#define TENON_METRIC_ID "tenon.metric/1"

/* Reduction: how the states of two ranks, or of two data ranges, are merged. */
enum {
  TENON_REDUCE_SUM = 0,
  TENON_REDUCE_MAX = 1,
  TENON_REDUCE_CONCAT = 2, /* concatenated along the first axis, in rank order */
  TENON_REDUCE_OWN = 3     /* merged by `merge` */
};

/* Declares one state tensor. */
typedef struct tenon_metric_state_spec {
  size_t struct_size;
  const char* name;     /* unique in the metric; [a-z0-9_] */
  const int64_t* shape; /* [ndim]; CONCAT: the first size is 0, all others are positive */
  size_t ndim;
  uint32_t dtype;  /* a dtype, not a class; use F64 or I64 if sums over long runs must be exact */
  uint32_t reduce; /* TENON_REDUCE_* */
  double init;     /* initial value: 0 for SUM; for MAX a lower bound of all values */
} tenon_metric_state_spec;
TENON_SEAL(tenon_metric_state_spec, init);

/* Periods over which the metric is reported in training, as flags; 0: not in training. The host
 * calls `update` once per microbatch, and merges its state into one state per period. An evaluation
 * always uses a separate state, from its start to its end. */
enum {
  TENON_PERIOD_STEP = 1u << 0,   /* since the last record */
  TENON_PERIOD_WINDOW = 1u << 1, /* since the window began */
  TENON_PERIOD_RUN = 1u << 2     /* since the run began */
};

/* Result of `describe`. The arrays live as long as the instance. */
typedef struct tenon_metric_info {
  size_t struct_size; /* set by the host, which also zeroes the other fields */
  uint32_t periods;   /* TENON_PERIOD_*; make this an option, since it costs time in each step */
  uint32_t reserved;
  const tenon_port* ports_ref; /* [num_ports] inputs of `update` */
  size_t num_ports;
  /* [num_states] State tensors; may be null if there are none. */
  const tenon_metric_state_spec* states_ref;
  size_t num_states;
  /* [num_metrics] names of the values that `compute` returns, for example "accuracy"; unique, at
   * least one; characters as in metrics.h. */
  const char* const* metrics_ref;
  size_t num_metrics;
} tenon_metric_info;
TENON_SEAL(tenon_metric_info, num_metrics);

/* Arguments of `update`. Inputs and states are borrowed until return. */
typedef struct tenon_metric_update_args {
  size_t struct_size;
  /* [num_inputs] In the order of the ports; null if optional and absent. */
  const tenon_tensor* const* inputs;
  size_t num_inputs;
  tenon_tensor* const* states; /* [num_states] updated in place; null for CONCAT states */
  size_t num_states;
  /* [num_states] Null on entry. To append rows to a CONCAT state, store a new handle, whose other
   * axes are as declared. */
  tenon_tensor** appended_own;
} tenon_metric_update_args;
TENON_SEAL(tenon_metric_update_args, appended_own);

/* Arguments of `merge`. Only states declared TENON_REDUCE_OWN are passed; all others are null in
 * both arrays. All are borrowed until return. */
typedef struct tenon_metric_merge_args {
  size_t struct_size;
  tenon_tensor* const* states;       /* [num_states] the left operands, updated in place */
  const tenon_tensor* const* others; /* [num_states] the right operands */
  size_t num_states;
} tenon_metric_merge_args;
TENON_SEAL(tenon_metric_merge_args, num_states);

/* Arguments of `compute`. All are borrowed until return. */
typedef struct tenon_metric_compute_args {
  size_t struct_size;
  const tenon_tensor* const* states; /* [num_states] merged; none is null */
  size_t num_states;
  /* [num_metrics] Results, in natural units, for example 0.97 for an accuracy of 97%; NaN if there
   * is no data. The host provides the array. */
  double* out_values;
  size_t num_metrics;
} tenon_metric_compute_args;
TENON_SEAL(tenon_metric_compute_args, num_metrics);

/* Arguments of `reset`. States are borrowed until return. */
typedef struct tenon_metric_reset_args {
  size_t struct_size;
  /* [num_states] Each filled with its `init`; null for CONCAT states, which are empty. */
  tenon_tensor* const* states;
  size_t num_states;
} tenon_metric_reset_args;
TENON_SEAL(tenon_metric_reset_args, num_states);

/* Interface TENON_METRIC_ID. */
typedef struct tenon_metric {
  size_t struct_size;

  /* Describes inputs, states and values of the metric.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed; its arrays belong to the instance
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_metric_info* out);

  /* Adds one microbatch to the states. Autograd never records it. It must not wait for the device,
   * because training calls it once per microbatch.
   *
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs and states are borrowed; the host releases the handles in appended_own
   * Since    0.1 */
  tenon_status* (*update)(void* self, const tenon_exec* exec, const tenon_metric_update_args* args);

  /* Merges the states of the next rank, or of the next data range, into `states`, in place. The
   * operation must be associative. Null if no state is declared TENON_REDUCE_OWN.
   *
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*merge)(void* self, const tenon_exec* exec, const tenon_metric_merge_args* args);

  /* Computes the metric's values from the merged states. It may wait for the device.
   *
   * Errors   any error ends the run
   * Threads  [step], on rank 0 only
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*compute)(void* self,
                           const tenon_exec* exec,
                           const tenon_metric_compute_args* args);

  /* Resets states that need more than their `init` value. Null if nothing is left to do.
   *
   * Errors   any error ends the run
   * Threads  [step]
   * Owner    `args` is borrowed until return
   * Since    0.1 */
  tenon_status* (*reset)(void* self, const tenon_exec* exec, const tenon_metric_reset_args* args);
} tenon_metric;

TENON_SEAL(tenon_metric, reset);
TENON_SLOT(tenon_metric, describe, 0);
TENON_SLOT(tenon_metric, update, 1);
TENON_SLOT(tenon_metric, merge, 2);
TENON_SLOT(tenon_metric, compute, 3);
TENON_SLOT(tenon_metric, reset, 4);

TENON_C_END
#endif
