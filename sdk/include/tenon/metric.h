/* SPDX-License-Identifier: Apache-2.0
 *
 * A metric: named figures over many batches (accuracy, AUC). What it has seen so far is a set of
 * named tensors, which the host owns: it makes them, hands them to `update`, merges them over ranks
 * and over stretches of the data as each declares, saves them, and has them reset. So states are
 * merged, never averages, and a metric is a set of pure functions. */
#ifndef TENON_METRIC_H
#define TENON_METRIC_H

#include "component.h"
#include "ports.h"

TENON_C_BEGIN

#define TENON_METRIC_ID "tenon.metric/1"

/* How the states of two ranks, or of two halves of the data, become one. */
enum {
  TENON_REDUCE_SUM = 0,
  TENON_REDUCE_MAX = 1,
  TENON_REDUCE_CONCAT = 2, /* along the first axis, in the order of ranks */
  TENON_REDUCE_OWN = 3     /* by `merge` */
};

typedef struct tenon_metric_state_spec {
  size_t struct_size;
  const char* name;     /* of [a-z0-9_], unique in the metric */
  const int64_t* shape; /* CONCAT: the first is 0, no other is */
  size_t ndim;
  uint32_t dtype;  /* a dtype, no class; F64 or I64 where sums over long runs must be exact */
  uint32_t reduce; /* TENON_REDUCE_* */
  double init;     /* what it starts with: 0 for SUM, for MAX what no value is below */
} tenon_metric_state_spec;
TENON_SEAL(tenon_metric_state_spec, init);

/* Since when a figure counts in training; none of them: it is not measured there. The host keeps a
 * state for each bit, and calls `update` once a microbatch for all. An evaluation has a state of
 * its own, from its start to its end, whatever is said here. */
enum {
  TENON_PERIOD_STEP = 1u << 0,   /* since the last record */
  TENON_PERIOD_WINDOW = 1u << 1, /* since the window began */
  TENON_PERIOD_RUN = 1u << 2
};

typedef struct tenon_metric_info {
  size_t struct_size; /* set by the host, who also zeroes the rest */
  uint32_t periods;   /* TENON_PERIOD_*; by an option, since it costs time in each step */
  uint32_t reserved;
  const tenon_port* ports_ref; /* these three live as long as the instance */
  size_t num_ports;
  const tenon_metric_state_spec* states_ref;
  size_t num_states;
  const char* const* figures_ref; /* names of what `compute` gives, "accuracy"; as in metrics.h */
  size_t num_figures;
} tenon_metric_info;
TENON_SEAL(tenon_metric_info, num_figures);

typedef struct tenon_metric {
  size_t struct_size;

  /* Threads [main], once, before any other call  Since 0.1 */
  tenon_status* (*describe)(void* self, tenon_metric_info* out);

  /* Takes one microbatch into the states; never recorded by autograd. It must not wait for the
   * device: in training it is called once a microbatch.
   *
   * Shapes   inputs in the order of the ports, null where optional and absent. states [num_states],
   * changed in place, null for CONCAT; appended_own [num_states] is null at the call: a CONCAT
   * state gets new rows by a handle put there (their other axes as declared), none by leaving it
   * null Errors   TENON_INVALID if shapes do not fit each other Threads  [step] Owner    inputs and
   * states are borrowed; the host releases what is put into appended_own Since    0.1 */
  tenon_status* (*update)(void* self,
                          const tenon_exec* exec,
                          const tenon_tensor* const* inputs,
                          size_t num_inputs,
                          tenon_tensor* const* states,
                          tenon_tensor** appended_own);

  /* Merges the states of the next rank, or of the next stretch of the data, into `states`, in
   * place; for those declared TENON_REDUCE_OWN (the others are null in both). Must be associative:
   * what comes first is on the left. Null if none is declared so. Threads [step]  Owner borrowed
   * Since 0.1 */
  tenon_status* (*merge)(void* self,
                         const tenon_exec* exec,
                         tenon_tensor* const* states,
                         const tenon_tensor* const* others);

  /* The figures of the merged states, in nature's units; NaN where there is no data.
   * Shapes   states [num_states], all given; out [num_figures]
   * Threads  [step], on rank 0 alone; it may wait for the device
   * Owner    borrowed
   * Since    0.1 */
  tenon_status* (*compute)(void* self,
                           const tenon_exec* exec,
                           const tenon_tensor* const* states,
                           double* out);

  /* Puts states to their start, where `init` does not say it all: each has been filled with its
   * `init`, those of CONCAT are empty and null here. Null: nothing is left to do.
   * Threads [step]  Owner borrowed  Since 0.1 */
  tenon_status* (*reset)(void* self, const tenon_exec* exec, tenon_tensor* const* states);
} tenon_metric;

TENON_SEAL(tenon_metric, reset);
TENON_SLOT(tenon_metric, describe, 0);
TENON_SLOT(tenon_metric, update, 1);
TENON_SLOT(tenon_metric, merge, 2);
TENON_SLOT(tenon_metric, compute, 3);
TENON_SLOT(tenon_metric, reset, 4);

TENON_C_END
#endif
