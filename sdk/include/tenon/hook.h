/* SPDX-License-Identifier: Apache-2.0
 *
 * A hook: called at the events of a run that it asked for. It sees the run through `tenon_run`, and
 * may wish for things that all ranks then do together.
 *
 * Order of hooks at one event: phase, then priority (higher first), then place in the recipe; at
 * `end` and `on_error` the reverse. */
#ifndef TENON_HOOK_H
#define TENON_HOOK_H

#include "component.h"

TENON_C_BEGIN

#define TENON_HOOK_ID "tenon.hook/1"

/* Events, in the order in which a run reaches them. `evaluation` events have is_train = 0. */
enum {
  TENON_EVENT_BEFORE_INIT = 0,
  TENON_EVENT_AFTER_INIT = 1,
  TENON_EVENT_START = 2,
  TENON_EVENT_AFTER_LOAD =
      3, /* only where something was loaded; again wherever the run goes back */
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

enum { TENON_PHASE_BEFORE = 0, TENON_PHASE_NORMAL = 1, TENON_PHASE_AFTER = 2 };

/* What a hook reads or writes, beyond wishes and figures. Two hooks that write one thing at one
 * event need different phases or priorities, or the recipe is refused. */
enum {
  TENON_TOUCH_BATCH = 1u << 0,
  TENON_TOUCH_PARAMETERS = 1u << 1,
  TENON_TOUCH_GRADIENTS = 1u << 2,
  TENON_TOUCH_LR = 1u << 3,
  TENON_TOUCH_LOSS = 1u << 4
};

/* Wishes. Those of any rank count for all. Made before the first before_forward of a step they act
 * at its end; later ones act a step later; between steps, at once, but for ROLL_BACK, which acts at
 * the end of the next step. */
enum {
  TENON_WISH_SKIP_UPDATE = 1u << 0, /* this step's update is not applied */
  TENON_WISH_EVALUATE = 1u << 1,
  TENON_WISH_CHECKPOINT = 1u << 2,
  TENON_WISH_STOP = 1u << 3, /* the run ends in order, as done (exit 0) */
  TENON_WISH_ROLL_BACK =
      1u << 4 /* the run goes back to the newest checkpoint that was taken before this step, and
                 leaves out the data since. The recipe must allow it (checkpoint.on_spike) */
};

typedef struct tenon_hook_info {
  size_t struct_size; /* set by the host, who also zeroes the rest */
  uint64_t events;    /* TENON_EVENT_BIT of each */
  uint32_t phase;
  int32_t priority;
  uint32_t reads; /* TENON_TOUCH_* */
  uint32_t writes;
  uint32_t
      rank_0_only; /* is called on rank 0 alone; with several ranks, only if it writes nothing */
  uint32_t full_parameters; /* parameters are gathered whole for it, on all ranks */
} tenon_hook_info;
TENON_SEAL(tenon_hook_info, full_parameters);

typedef struct tenon_run tenon_run;

/* One parameter as a hook sees it. Tensors are borrowed until the call returns. */
typedef struct tenon_parameter_view {
  size_t struct_size; /* set by the caller */
  const char* name_ref;
  const tenon_tensor* value_ref; /* the local slice, or the whole where asked for */
  const tenon_tensor* grad_ref;  /* null where there is none at this event */
  int64_t offset;                /* of the slice in the whole, in elements */
  int64_t numel;                 /* of the whole */
} tenon_parameter_view;
TENON_SEAL(tenon_parameter_view, numel);

/* Parameters with one rate: what the recipe's optimizer has for them, or one of its groups, and of
 * either the parameters that take no weight decay apart. */
typedef struct tenon_lr_group {
  size_t struct_size; /* set by the caller */
  const char*
      name_ref; /* "default", or "group0", ... by place in the recipe's groups; with
                   ".no_decay" behind it where decay is left out. Lives as long as the run */
  const char*
      match_ref;    /* the pattern of the recipe's group; "" for parameters that none matches */
  double base_rate; /* the option "lr" */
  double rate;      /* that of this step's update: base_rate times schedule and factor. Before
                       the update, what it would be by now; before the first step, that of the
                       first */
} tenon_lr_group;
TENON_SEAL(tenon_lr_group, rate);

/* The run, seen from an event. All: Threads as the event, and only while it lasts. Since 0.1. */
typedef struct tenon_run_api {
  size_t struct_size;
  /* Adds wishes. `reason` goes into the log and, for STOP, into the last line of the run. */
  tenon_status* (*wish)(tenon_run* run, uint32_t wishes, const char* reason);
  /* The last recorded value of a figure: "loss" (of the last log line), "eval/loss", "lr", ...
   * Errors TENON_NOT_FOUND if there is none yet. */
  tenon_status* (*get_metric)(tenon_run* run, const char* name, double* out);
  /* A scalar of the step under way that may still be on the device: "loss" (mean so far, over what
   * this rank has seen), "grad_norm", "applied" (1 or 0), which all ranks share.  Borrowed.
   * Errors TENON_NOT_FOUND if there is none: before the first loss of a step, or where this rank
   * had no sample in it */
  tenon_status* (*get_scalar)(tenon_run* run, const char* name, const tenon_tensor** out_ref);
  /* Adds a figure to the next record: of several ranks that do, the first one's. */
  tenon_status* (*add_metric)(tenon_run* run, const char* name, double value);
  /* A field of the batch, or null. Writers change it in place (and declare TENON_TOUCH_BATCH). */
  tenon_status* (*get_field)(tenon_run* run, const char* name, tenon_tensor** out_ref);
  /* A factor on the rate of every group, on top of the schedule; it stays until set again. All
   * ranks must set the same one. */
  tenon_status* (*set_lr_factor)(tenon_run* run, double factor);
  tenon_status* (*get_num_parameters)(tenon_run* run, size_t* out);
  tenon_status* (*get_parameter)(tenon_run* run, size_t i, tenon_parameter_view* out);
  /* Where this run keeps its files: the run folder. */
  const char* (*run_dir)(tenon_run* run);
  /* The groups of parameters by rate. An early host of 0.1 has none of these three: TENON_HAS. */
  tenon_status* (*get_num_lr_groups)(tenon_run* run, size_t* out);
  tenon_status* (*get_lr_group)(tenon_run* run, size_t i, tenon_lr_group* out);
  /* A number of the options that the group's optimizer was created with: "/weight_decay",
   * "/betas/0". Errors TENON_NOT_FOUND if there is no number at this JSON pointer. */
  tenon_status* (*get_lr_group_option)(tenon_run* run, size_t i, const char* pointer, double* out);
  /* Wishes for TENON_WISH_ROLL_BACK, to before a step that is over, at which the run went wrong as
   * it seems now. An early host of 0.1 has it not: TENON_HAS.  Errors TENON_INVALID for a step that
   * is still to come, and where the recipe does not allow it */
  tenon_status* (*roll_back)(tenon_run* run, uint64_t first_bad_step, const char* reason);
} tenon_run_api;
TENON_SEAL(tenon_run_api, roll_back);
TENON_SLOT(tenon_run_api, wish, 0);
TENON_SLOT(tenon_run_api, run_dir, 8);
TENON_SLOT(tenon_run_api, get_lr_group_option, 11);
TENON_SLOT(tenon_run_api, roll_back, 12);

typedef struct tenon_event {
  size_t struct_size;
  uint32_t id;
  uint32_t is_train;
  uint64_t step;  /* the step under way or last finished, from 1; 0 before the first */
  uint64_t epoch; /* from 0 */
  uint64_t
      window; /* of the epoch, from 0, skipped ones not counted; 0 at events outside of windows */
  uint64_t microbatch; /* from 0: of the step, or of the evaluation; 0 at events that have none */
  const char* window_label; /* "" where there are no windows */
  const char* message;      /* on_error: the error; end: the outcome; after_load: why the run has
                               gone back, "" where it goes on; before_ and after_evaluate: ""
                               where data.eval is evaluated on, else what all names of its figures
                               begin with, "next/" or "test/"; "" at all others */
  tenon_run* run;
  const tenon_run_api* api;
} tenon_event;
TENON_SEAL(tenon_event, api);

typedef struct tenon_hook {
  size_t struct_size;
  /* Threads [main], once, before any other call  Since 0.1 */
  tenon_status* (*describe)(void* self, tenon_hook_info* out);
  /* Called at each event asked for. An error ends the run, with on_error and end for all hooks.
   * Threads [step]  Owner the event is borrowed  Since 0.1 */
  tenon_status* (*on_event)(void* self, const tenon_event* event);
} tenon_hook;
TENON_SEAL(tenon_hook, on_event);
TENON_SLOT(tenon_hook, describe, 0);
TENON_SLOT(tenon_hook, on_event, 1);

TENON_C_END
#endif
