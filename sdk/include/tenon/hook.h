/* SPDX-License-Identifier: Apache-2.0
 *
 * Defines a hook, which the host calls at the events of a run that the hook subscribes to. It
 * observes the run through `tenon_run`, and may request actions that all ranks then take together.
 *
 * At one event, hooks run by phase, then by priority (higher first), then by position in the
 * recipe. At `end` and `on_error`, the order is reversed. */
#ifndef TENON_HOOK_H
#define TENON_HOOK_H

#include "component.h"
#include "exec.h"
#include "metric.h"

TENON_C_BEGIN

#define TENON_HOOK_ID "tenon.hook/1"

/* Events, in the order in which a run reaches them. Events of an evaluation have is_train = 0. */
enum {
  TENON_EVENT_BEFORE_INIT = 0,
  TENON_EVENT_AFTER_INIT = 1,
  TENON_EVENT_START = 2,
  /* Only if weights or a checkpoint were loaded; again after each rollback. */
  TENON_EVENT_AFTER_LOAD = 3,
  TENON_EVENT_WINDOW_MODE = 4,
  TENON_EVENT_BEFORE_EPOCH = 5,
  TENON_EVENT_BEFORE_WINDOW = 6,
  TENON_EVENT_BEFORE_STEP = 7,
  TENON_EVENT_AFTER_DATA = 8,
  TENON_EVENT_BEFORE_FORWARD = 9,
  TENON_EVENT_AFTER_FORWARD = 10,
  TENON_EVENT_BEFORE_LOSS = 11,
  TENON_EVENT_AFTER_LOSS = 12,
  TENON_EVENT_BEFORE_BACKWARD = 13,
  TENON_EVENT_AFTER_BACKWARD = 14,
  TENON_EVENT_BEFORE_OPTIMIZER_STEP = 15, /* gradients are final */
  TENON_EVENT_AFTER_OPTIMIZER_STEP = 16,
  TENON_EVENT_AFTER_STEP = 17,
  TENON_EVENT_UPDATE_SKIPPED = 18,
  TENON_EVENT_BEFORE_EVALUATE = 19,
  TENON_EVENT_AFTER_EVALUATE = 20,
  TENON_EVENT_BEFORE_CHECKPOINT = 21,
  TENON_EVENT_AFTER_CHECKPOINT = 22,
  TENON_EVENT_OUT_OF_DATA = 23,
  TENON_EVENT_AFTER_WINDOW = 24,
  TENON_EVENT_AFTER_EPOCH = 25,
  TENON_EVENT_ON_ERROR = 26,
  TENON_EVENT_END = 27,
  TENON_NUM_EVENTS = 28
};
#define TENON_EVENT_BIT(event) (UINT64_C(1) << (event))
#define TENON_ALL_EVENTS (TENON_EVENT_BIT(TENON_NUM_EVENTS) - 1)

/* Phase of a hook; NORMAL is the default. */
enum { TENON_PHASE_BEFORE = 0, TENON_PHASE_NORMAL = 1, TENON_PHASE_AFTER = 2 };

/* Objects that a hook reads or writes, apart from requests and metrics. A hook declares what it
 * writes: an undeclared write is an error. Two hooks that write the same object at the same event
 * need different phases or priorities; otherwise the host rejects the recipe. */
enum {
  TENON_TOUCH_BATCH = 1u << 0,      /* fields of the batch: in place, or by set_field */
  TENON_TOUCH_PARAMETERS = 1u << 1, /* values of parameters, in place */
  TENON_TOUCH_GRADIENTS = 1u << 2,  /* gradients of parameters, in place */
  TENON_TOUCH_LR = 1u << 3,         /* the learning rate, by set_lr_factor */
  /* Write: the loss, by scale_loss. Read: the loss of each step over all ranks, by get_step_loss.
   */
  TENON_TOUCH_LOSS = 1u << 4,
  TENON_TOUCH_OUTPUTS = 1u << 5 /* read: outputs of the model, by get_output */
};

/* Requests. A request of any rank counts for all ranks. A request made before the first
 * before_forward of a step takes effect at the end of that step. A later request takes effect at
 * the end of the next step. Between steps it takes effect at once, except ROLL_BACK, which waits
 * for the end of the next step. */
enum {
  TENON_REQUEST_SKIP_UPDATE = 1u << 0, /* does not apply the update of this step */
  TENON_REQUEST_EVALUATE = 1u << 1, /* runs an evaluation; refused if the recipe has no data.eval */
  TENON_REQUEST_CHECKPOINT = 1u << 2, /* saves a checkpoint; refused if the run saves none */
  TENON_REQUEST_STOP = 1u << 3,       /* ends the run successfully (exit code 0) */
  /* Returns to the newest checkpoint taken before this step and skips the data since. The recipe
   * must allow it (checkpoint.on_spike). */
  TENON_REQUEST_ROLL_BACK = 1u << 4
};

/* Result of `describe`. */
typedef struct tenon_hook_info {
  /* Set by the host, which also zeroes the other fields, except phase = TENON_PHASE_NORMAL. */
  size_t struct_size;
  uint64_t events;  /* TENON_EVENT_BIT of each event to be called at */
  uint32_t phase;   /* TENON_PHASE_* */
  int32_t priority; /* higher runs first */
  /* TENON_TOUCH_*: what the host must prepare. Only TENON_TOUCH_LOSS and TENON_TOUCH_OUTPUTS have
   * an effect in this host. With TENON_TOUCH_OUTPUTS the host runs all blocks of the model and
   * keeps their outputs, which costs time and memory. */
  uint32_t reads;
  uint32_t writes; /* TENON_TOUCH_*, except TENON_TOUCH_OUTPUTS */
  /* 1: called only on rank 0. With several ranks, such a hook must not write anything. */
  uint32_t rank_0_only;
  uint32_t full_parameters; /* 1: the host gathers whole parameters for it, on all ranks */
  /* 1: it calls all_reduce, or a service that all ranks call together, with the same calls on all
   * ranks. Not with rank_0_only. */
  uint32_t uses_collectives;
  uint32_t reserved;
} tenon_hook_info;
TENON_SEAL(tenon_hook_info, reserved);

/* The running training, valid during an event. Opaque. */
typedef struct tenon_run tenon_run;

/* One parameter. Tensors are borrowed until the event returns. */
typedef struct tenon_parameter_view {
  size_t struct_size;   /* set by the caller */
  const char* name_ref; /* lives as long as the run */
  /* The local shard, or the whole parameter if full_parameters is set. */
  const tenon_tensor* value_ref;
  const tenon_tensor* grad_ref; /* null if there is no gradient at this event */
  int64_t offset;               /* position of the shard in what `numel` counts, in elements */
  /* Number of elements of the whole parameter; of this rank's part of it, in row-major order, if
   * tensor ranks divide it and full_parameters is not set. */
  int64_t numel;
} tenon_parameter_view;
TENON_SEAL(tenon_parameter_view, numel);

/* Parameters that share a learning rate: the recipe's optimizer or one of its groups. In each,
 * parameters without weight decay form a separate group. */
typedef struct tenon_lr_group {
  size_t struct_size; /* set by the caller */
  /* "default", or "group0" and so on by position in the recipe, plus ".no_decay" for parameters
   * without weight decay. Lives as long as the run. */
  const char* name_ref;
  /* The pattern of the recipe's group; "" for parameters that no pattern matches. Lives as long as
   * the run. */
  const char* match_ref;
  double base_rate; /* the option "lr" */
  /* Learning rate of this step's update: base_rate times schedule and factor. Before the update,
   * the rate it would use now; before the first step, the rate of the first step. */
  double rate;
} tenon_lr_group;
TENON_SEAL(tenon_lr_group, rate);

/* Gives a hook access to the run. The tags below hold for every function.
 *
 * Errors   TENON_INVALID for a null argument or an index out of range
 * Threads  those of the event, and only during it
 * Since    0.1 */
typedef struct tenon_run_api {
  size_t struct_size;
  /* Makes requests, TENON_REQUEST_*. `reason` is logged; for STOP it also appears in the last line
   * of the run. It may be null.
   *
   * Errors   TENON_INVALID for an unknown request, or one that the recipe does not allow */
  tenon_status* (*request)(tenon_run* run, uint32_t requests, const char* reason);
  /* Returns the last recorded value of a metric. Names: "loss" (of the last log line), "lr",
   * "grad_norm", "loss_scale", "step_seconds", "samples_per_second", "tokens_per_second",
   * "data_wait_seconds", "eval/loss", and those of the recipe's metrics and of plugins. All ranks
   * have the same value, which is up to `log_every` steps old (get_step_loss is not).
   *
   * Errors   TENON_NOT_FOUND if there is no value yet */
  tenon_status* (*get_metric)(tenon_run* run, const char* name, double* out);
  /* Returns a scalar of the current step that may still be on the device: "loss" (mean so far, over
   * the samples of this rank), "grad_norm", or "applied" (1 or 0). All ranks have the same
   * "grad_norm" and "applied".
   *
   * Errors   TENON_NOT_FOUND before the first loss of a step, or if this rank had no sample in it
   * Owner    *out_ref is borrowed until the event returns */
  tenon_status* (*get_scalar)(tenon_run* run, const char* name, const tenon_tensor** out_ref);
  /* Adds a metric to the next record. If several ranks add it, the lowest rank's value is recorded.
   *
   * Errors   TENON_INVALID for an invalid or reserved name (metrics.h) */
  tenon_status* (*add_metric)(tenon_run* run, const char* name, double value);
  /* Returns a field of the batch, or null if there is no such field or no batch at this event. A
   * hook that changes the field in place declares TENON_TOUCH_BATCH.
   *
   * Owner    *out_ref is borrowed until the event returns */
  tenon_status* (*get_field)(tenon_run* run, const char* name, tenon_tensor** out_ref);
  /* Sets a factor on the learning rate of every group, on top of the schedule. It stays in effect
   * until it is set again, and is saved in checkpoints. All ranks must set the same factor.
   *
   * Errors   TENON_INVALID for a negative or non-finite factor, or a hook that does not declare
   *          TENON_TOUCH_LR */
  tenon_status* (*set_lr_factor)(tenon_run* run, double factor);
  /* Returns the number of parameters. */
  tenon_status* (*get_num_parameters)(tenon_run* run, size_t* out);
  /* Returns parameter i, in [0, number of parameters).
   *
   * Owner    `out` is filled with borrowed pointers */
  tenon_status* (*get_parameter)(tenon_run* run, size_t i, tenon_parameter_view* out);
  /* Returns the run directory, which contains the run's files. Never null.
   *
   * Owner    lives as long as the run */
  const char* (*run_dir)(tenon_run* run);
  /* Returns the number of learning-rate groups. */
  tenon_status* (*get_num_lr_groups)(tenon_run* run, size_t* out);
  /* Returns learning-rate group i. */
  tenon_status* (*get_lr_group)(tenon_run* run, size_t i, tenon_lr_group* out);
  /* Reads a number from the options of the group's optimizer, by JSON pointer: "/weight_decay",
   * "/betas/0".
   *
   * Errors   TENON_NOT_FOUND if there is no number at the pointer */
  tenon_status* (*get_lr_group_option)(tenon_run* run, size_t i, const char* pointer, double* out);
  /* Requests TENON_REQUEST_ROLL_BACK to a checkpoint before `first_bad_step`, a finished step at
   * which the run turned bad.
   *
   * Errors   TENON_INVALID for a step that is not finished, or if the recipe does not allow it */
  tenon_status* (*roll_back)(tenon_run* run, uint64_t first_bad_step, const char* reason);

  /* Returns an output of the model for the current microbatch, by its name in the model: at
   * after_forward, before_loss, after_loss and before_backward, also in an evaluation.
   *
   * Errors   TENON_NOT_FOUND if no such value is computed at this event: with `loss_chunk`, the
   *          outputs of the last block never exist as a whole; without TENON_TOUCH_OUTPUTS in
   *          `reads`, only outputs that a loss or a metric reads exist
   * Owner    *out_ref is borrowed until the event returns
   * Since    0.4 */
  tenon_status* (*get_output)(tenon_run* run, const char* name, const tenon_tensor** out_ref);
  /* Replaces a field of the batch, at after_data. The new tensor has the dtype, device and number
   * of axes of the old one, and the same size of the first axis.
   *
   * Errors   TENON_NOT_FOUND if there is no such field; TENON_INVALID for another tensor or event,
   *          or a hook that does not declare TENON_TOUCH_BATCH
   * Owner    `tensor` is borrowed; the host takes a reference
   * Since    0.4 */
  tenon_status* (*set_field)(tenon_run* run, const char* name, const tenon_tensor* tensor);
  /* Multiplies the loss of the current microbatch, auxiliary losses included, by a factor for the
   * backward pass: at before_loss, after_loss and before_backward of the training. Recorded losses
   * do not change.
   *
   * Errors   TENON_INVALID for a non-finite factor, another event, or a hook that does not declare
   *          TENON_TOUCH_LOSS; TENON_UNSUPPORTED after before_loss if the recipe sets `loss_chunk`,
   *          because gradients are then computed along with the loss
   * Since    0.4 */
  tenon_status* (*scale_loss)(tenon_run* run, double factor);
  /* Returns the loss of the current step over all ranks, as a record of this step alone would show
   * it: from before_optimizer_step to after_step.
   *
   * Errors   TENON_NOT_FOUND before that, or if the loss of the step is non-finite; TENON_INVALID
   *          if the hook does not declare to read TENON_TOUCH_LOSS
   * Since    0.4 */
  tenon_status* (*get_step_loss)(tenon_run* run, double* out);
  /* Replaces each of n numbers by its reduction over all ranks: TENON_REDUCE_SUM, in rank order, or
   * TENON_REDUCE_MAX. All ranks call it at the same events, with the same n and reduction; not at
   * on_error and end.
   *
   * Shapes   io_values [n], n at most 4096
   * Errors   TENON_INVALID for another n or reduction, or a hook that does not declare
   *          uses_collectives. If a rank is lost, the run ends
   * Owner    io_values is borrowed
   * Since    0.4 */
  tenon_status* (*all_reduce)(tenon_run* run, double* io_values, size_t n, uint32_t reduction);
} tenon_run_api;
TENON_SEAL(tenon_run_api, all_reduce);
TENON_SLOT(tenon_run_api, request, 0);
TENON_SLOT(tenon_run_api, run_dir, 8);
TENON_SLOT(tenon_run_api, get_lr_group_option, 11);
TENON_SLOT(tenon_run_api, roll_back, 12);
TENON_SLOT(tenon_run_api, get_output, 13);
TENON_SLOT(tenon_run_api, set_field, 14);
TENON_SLOT(tenon_run_api, scale_loss, 15);
TENON_SLOT(tenon_run_api, get_step_loss, 16);
TENON_SLOT(tenon_run_api, all_reduce, 17);

/* One event. All pointers are borrowed until `on_event` returns. */
typedef struct tenon_event {
  size_t struct_size;
  uint32_t id;       /* TENON_EVENT_* */
  uint32_t is_train; /* 0 during an evaluation */
  uint64_t step;     /* current or last finished step, from 1; 0 before the first */
  uint64_t epoch;    /* from 0; in an evaluation, that of the training */
  /* Index in the epoch, from 0, not counting skipped windows; 0 at events outside of windows. */
  uint64_t window;
  uint64_t microbatch;      /* index in the step or evaluation, from 0; 0 at other events */
  const char* window_label; /* "" if the dataset has no windows */
  /* Depends on the event, "" at all others. on_error: the error. end: the outcome. after_load: the
   * reason of a rollback, "" for a resume. before_evaluate and after_evaluate: the prefix of the
   * metric names, "next/" or "test/"; "" if the evaluation uses data.eval. */
  const char* message;
  tenon_run* run;           /* first argument of the functions in `api` */
  const tenon_run_api* api; /* never null */
  /* Device, stream and services, for work on tensors; never null. `seed` is 0. */
  const tenon_exec* exec;
} tenon_event;
TENON_SEAL(tenon_event, exec);

/* Interface TENON_HOOK_ID. */
typedef struct tenon_hook {
  size_t struct_size;
  /* Describes events, order and access of the hook.
   *
   * Errors   any error ends the run before the first step
   * Threads  [main], once, before any other call
   * Owner    `out` is borrowed until return
   * Since    0.1 */
  tenon_status* (*describe)(void* self, tenon_hook_info* out);
  /* Handles an event that the hook subscribed to.
   *
   * Errors   any error ends the run, with on_error and end for all hooks
   * Threads  [step]
   * Owner    the event is borrowed until return
   * Since    0.1 */
  tenon_status* (*on_event)(void* self, const tenon_event* event);
} tenon_hook;
TENON_SEAL(tenon_hook, on_event);
TENON_SLOT(tenon_hook, describe, 0);
TENON_SLOT(tenon_hook, on_event, 1);

TENON_C_END
#endif
