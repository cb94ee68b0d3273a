/* SPDX-License-Identifier: Apache-2.0
 *
 * A hook that does nothing, or one thing wrong at one event of step BAD_STEP and later ones. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "misbehaves.h"

typedef struct HookFault {
  const char* name;
  uint32_t event;  /* where it acts */
  uint32_t writes; /* what it declares, TENON_TOUCH_* */
  tenon_status* (*act)(const Instance* self, const tenon_event* event);
  void (*change)(tenon_hook_info* info);
} HookFault;

/* ---- faults of describe ---- */

static void ask_for_unknown_event(tenon_hook_info* info) {
  info->events |= UINT64_C(1) << 40;
}

static void ask_for_unknown_phase(tenon_hook_info* info) {
  info->phase = 9;
}

static void hang_in_describe(tenon_hook_info* info) {
  (void)info;
  hang();
}

/* ---- faults of the process ---- */

static tenon_status* read_through_null(const Instance* self, const tenon_event* event) {
  (void)self;
  (void)event;
  crash();
  return NULL;
}

static tenon_status* raise_segv(const Instance* self, const tenon_event* event) {
  (void)self;
  (void)event;
  raise(SIGSEGV);
  return NULL;
}

/* The array keeps the compiler from turning the recursion into a loop. */
static int recurse(volatile char* above) {
  volatile char frame[4096];
  memset((void*)frame, above[0], sizeof(frame));
  return frame[1] == 127 ? 0 : recurse(frame) + frame[2];
}

static tenon_status* overflow_stack(const Instance* self, const tenon_event* event) {
  volatile char first[2] = {1, 1};
  (void)self;
  (void)event;
  return recurse(first) == 0 ? NULL : NULL;
}

static tenon_status* abort_run(const Instance* self, const tenon_event* event) {
  (void)self;
  (void)event;
  abort();
}

static tenon_status* free_twice(const Instance* self, const tenon_event* event) {
  (void)self;
  (void)event;
  void (*volatile release)(void*) = free; /* hides the second call from the compiler */
  void* const memory = malloc(24);
  release(memory);
  release(memory);
  return NULL;
}

static tenon_status* exit_with_0(const Instance* self, const tenon_event* event) {
  (void)self;
  (void)event;
  exit(0);
}

static tenon_status* exit_at_once_with_0(const Instance* self, const tenon_event* event) {
  (void)self;
  (void)event;
  _exit(0);
}

static tenon_status* never_return(const Instance* self, const tenon_event* event) {
  (void)self;
  (void)event;
  hang();
  return NULL;
}

/* ---- faults of calls ---- */

static tenon_status* factor_of_minus_three(const Instance* self, const tenon_event* event) {
  (void)self;
  return event->api->set_lr_factor(event->run, -3);
}

static tenon_status* factor_of_nan(const Instance* self, const tenon_event* event) {
  (void)self;
  return event->api->set_lr_factor(event->run, NAN);
}

static tenon_status* add_metric_loss(const Instance* self, const tenon_event* event) {
  (void)self;
  return event->api->add_metric(event->run, "loss", 0);
}

static tenon_status* parameter_into_short_view(const Instance* self, const tenon_event* event) {
  tenon_parameter_view view = {.struct_size = sizeof(size_t)};
  (void)self;
  return event->api->get_parameter(event->run, 0, &view);
}

static tenon_status* long_status(const Instance* self, const tenon_event* event) {
  const size_t size = (size_t)64 << 20;
  char* message = malloc(size + 1);
  (void)event;
  if (message == NULL) {
    return fail(self, TENON_OUT_OF_MEMORY, "no memory for a message");
  }
  memset(message, 'm', size);
  message[size] = '\0';
  tenon_status* status = fail(self, TENON_INVALID, message);
  free(message);
  return status;
}

static tenon_status* log_a_lot(const Instance* self, const tenon_event* event) {
  const tenon_log_api* log = self->host->get_interface(self->host, TENON_LOG_ID);
  if (event->step == BAD_STEP) {
    for (int i = 0; i < 240000; ++i) {
      log->write(self->host, TENON_LOG_WARN, "\x1b[2J\x1b[31mthe zoo\x1b[0m\a\r");
    }
  }
  return NULL;
}

/* Their content is never written, so that they take no memory. */
static tenon_status* leak_tensors(const Instance* self, const tenon_event* event) {
  const int64_t shape[1] = {16 << 20};
  tenon_tensor* leaked = NULL;
  return self->tensors->empty(self->host, TENON_F32, event->exec->device, 1, shape, &leaked);
}

static tenon_status* pass_nulls(const Instance* self, const tenon_event* event) {
  return event->step == BAD_STEP ? call_with_nulls(self, event) : NULL;
}

/* ---- writes that it does not declare ---- */

static tenon_status* declare_no_factor(const Instance* self, const tenon_event* event) {
  (void)self;
  return event->api->set_lr_factor(event->run, 0.5);
}

static tenon_status* declare_no_field(const Instance* self, const tenon_event* event) {
  tenon_tensor* field = NULL;
  tenon_tensor* own = NULL;
  RETURN_IF_FAILED(event->api->get_field(event->run, "x", &field));
  RETURN_IF_FAILED(self->tensors->retain(self->host, field, &own));
  tenon_status* status = event->api->set_field(event->run, "x", own);
  self->tensors->release(own);
  return status;
}

static tenon_status* declare_no_loss(const Instance* self, const tenon_event* event) {
  (void)self;
  return event->api->scale_loss(event->run, 0.5);
}

static tenon_status* declare_no_collective(const Instance* self, const tenon_event* event) {
  double value = 1;
  (void)self;
  return event->api->all_reduce(event->run, &value, 1, TENON_REDUCE_SUM);
}

static tenon_status* declare_no_read(const Instance* self, const tenon_event* event) {
  double loss = 0;
  (void)self;
  return event->api->get_step_loss(event->run, &loss);
}

/* Sets all elements to 0, by an operator. */
static tenon_status* clear(const Instance* self,
                           const tenon_event* event,
                           const tenon_tensor* tensor) {
  const tenon_any args[1] = {tensor_any(tensor)};
  tenon_tensor* same = NULL;
  RETURN_IF_FAILED(call_op(event->exec, "aten::zero_", args, 1, &same));
  self->tensors->release(same);
  return NULL;
}

static tenon_status* clear_field(const Instance* self, const tenon_event* event) {
  tenon_tensor* field = NULL;
  RETURN_IF_FAILED(event->api->get_field(event->run, "x", &field));
  return clear(self, event, field);
}

static tenon_status* clear_parameter(const Instance* self, const tenon_event* event) {
  tenon_parameter_view view = {.struct_size = sizeof(view)};
  RETURN_IF_FAILED(event->api->get_parameter(event->run, 0, &view));
  return clear(self, event, view.value_ref);
}

static tenon_status* clear_gradient(const Instance* self, const tenon_event* event) {
  tenon_parameter_view view = {.struct_size = sizeof(view)};
  RETURN_IF_FAILED(event->api->get_parameter(event->run, 0, &view));
  if (view.grad_ref == NULL) {
    return fail(self, TENON_INTERNAL, "there is no gradient to clear");
  }
  return clear(self, event, view.grad_ref);
}

static const HookFault kFaults[] = {
    {"", TENON_EVENT_AFTER_STEP, 0, NULL, NULL},
    {"ask_for_unknown_event", TENON_EVENT_AFTER_STEP, 0, NULL, ask_for_unknown_event},
    {"ask_for_unknown_phase", TENON_EVENT_AFTER_STEP, 0, NULL, ask_for_unknown_phase},
    {"hang_in_describe", TENON_EVENT_AFTER_STEP, 0, NULL, hang_in_describe},
    {"read_through_null", TENON_EVENT_AFTER_STEP, 0, read_through_null, NULL},
    {"raise_segv", TENON_EVENT_AFTER_STEP, 0, raise_segv, NULL},
    {"overflow_stack", TENON_EVENT_AFTER_STEP, 0, overflow_stack, NULL},
    {"abort_run", TENON_EVENT_AFTER_STEP, 0, abort_run, NULL},
    {"free_twice", TENON_EVENT_AFTER_STEP, 0, free_twice, NULL},
    {"exit_with_0", TENON_EVENT_AFTER_STEP, 0, exit_with_0, NULL},
    {"exit_at_once_with_0", TENON_EVENT_AFTER_STEP, 0, exit_at_once_with_0, NULL},
    {"never_return", TENON_EVENT_AFTER_STEP, 0, never_return, NULL},
    {"factor_of_minus_three", TENON_EVENT_AFTER_STEP, TENON_TOUCH_LR, factor_of_minus_three, NULL},
    {"factor_of_nan", TENON_EVENT_AFTER_STEP, TENON_TOUCH_LR, factor_of_nan, NULL},
    {"add_metric_loss", TENON_EVENT_AFTER_STEP, 0, add_metric_loss, NULL},
    {"parameter_into_short_view", TENON_EVENT_AFTER_STEP, 0, parameter_into_short_view, NULL},
    {"long_status", TENON_EVENT_AFTER_STEP, 0, long_status, NULL},
    {"log_a_lot", TENON_EVENT_AFTER_STEP, 0, log_a_lot, NULL},
    {"leak_tensors", TENON_EVENT_AFTER_STEP, 0, leak_tensors, NULL},
    {"pass_nulls", TENON_EVENT_AFTER_STEP, 0, pass_nulls, NULL},
    {"declare_no_factor", TENON_EVENT_AFTER_STEP, 0, declare_no_factor, NULL},
    {"declare_no_field", TENON_EVENT_AFTER_DATA, 0, declare_no_field, NULL},
    {"declare_no_loss", TENON_EVENT_BEFORE_LOSS, 0, declare_no_loss, NULL},
    {"declare_no_collective", TENON_EVENT_AFTER_STEP, 0, declare_no_collective, NULL},
    {"declare_no_read", TENON_EVENT_AFTER_STEP, 0, declare_no_read, NULL},
    {"clear_field", TENON_EVENT_AFTER_DATA, 0, clear_field, NULL},
    {"clear_parameter", TENON_EVENT_AFTER_STEP, 0, clear_parameter, NULL},
    {"clear_gradient", TENON_EVENT_BEFORE_OPTIMIZER_STEP, 0, clear_gradient, NULL},
};

static tenon_status* describe(void* opaque, tenon_hook_info* out) {
  const Instance* self = opaque;
  const HookFault* fault = self->fault;
  out->events = TENON_EVENT_BIT(fault->event);
  out->writes = fault->writes;
  if (fault->change != NULL) {
    fault->change(out);
  }
  return NULL;
}

static tenon_status* on_event(void* opaque, const tenon_event* event) {
  const Instance* self = opaque;
  const HookFault* fault = self->fault;
  return fault->act != NULL && event->step >= BAD_STEP ? fault->act(self, event) : NULL;
}

static const tenon_hook kTable = {
    .struct_size = sizeof(tenon_hook), .describe = describe, .on_event = on_event};

DEFINE_CREATE(create, kFaults)

const tenon_component bad_hook_component =
    COMPONENT("hook", "bad_hook", TENON_HOOK_ID, kTable, create, OPTIONS_SCHEMA(""));
