/* SPDX-License-Identifier: Apache-2.0
 *
 * An optimizer that changes nothing, and a schedule of the constant 1. */
#include <math.h>

#include "misbehaves.h"

/* ---- bad_optimizer ---- */

typedef struct OptimizerFault {
  const char* name;
  void (*change)(tenon_optimizer_info* info);
  tenon_status* (*update)(const Instance* self, const tenon_update_args* args);
} OptimizerFault;

static void slot_twice(tenon_optimizer_info* info) {
  static const tenon_slot_spec slots[] = {
      {.struct_size = sizeof(tenon_slot_spec), .name = "m", .dtype = TENON_F32},
      {.struct_size = sizeof(tenon_slot_spec), .name = "m", .dtype = TENON_F32}};
  info->slots_ref = slots;
  info->num_slots = 2;
}

static tenon_status* write_nan(const Instance* self, const tenon_update_args* args) {
  for (size_t i = 0; i < args->num_pieces; ++i) {
    tenon_tensor_info piece = {.struct_size = sizeof(piece)};
    RETURN_IF_FAILED(self->tensors->info(args->parameters[i], &piece));
    for (int64_t k = 0; k < piece.numel; ++k) {
      ((float*)piece.data)[k] = NAN;
    }
  }
  return NULL;
}

static const OptimizerFault kOptimizerFaults[] = {
    {"", NULL, NULL}, {"slot_twice", slot_twice, NULL}, {"write_nan", NULL, write_nan}};

static tenon_status* describe_optimizer(void* opaque, tenon_optimizer_info* out) {
  const OptimizerFault* fault = ((const Instance*)opaque)->fault;
  if (fault->change != NULL) {
    fault->change(out);
  }
  return NULL;
}

/* Values that are NaN after one step make the next step non-finite. */
static tenon_status* update(void* opaque, const tenon_exec* exec, const tenon_update_args* args) {
  const Instance* self = opaque;
  const OptimizerFault* fault = self->fault;
  return fault->update != NULL && exec->step >= BAD_STEP - 1 ? fault->update(self, args) : NULL;
}

static const tenon_optimizer kOptimizerTable = {
    .struct_size = sizeof(tenon_optimizer), .describe = describe_optimizer, .update = update};

DEFINE_CREATE(create_optimizer, kOptimizerFaults)

const tenon_component bad_optimizer_component =
    COMPONENT("optimizer",
              "bad_optimizer",
              TENON_OPTIMIZER_ID,
              kOptimizerTable,
              create_optimizer,
              OPTIONS_SCHEMA("\"lr\": {\"type\": \"number\", \"default\": 0.1, "
                             "\"description\": \"the learning rate\"}, "));

/* ---- bad_schedule ---- */

typedef struct ScheduleFault {
  const char* name;
  double factor; /* from step BAD_STEP on */
  int is_info_bad;
} ScheduleFault;

static const ScheduleFault kScheduleFaults[] = {{"", 1, 0},
                                                {"factor_of_minus_three", -3, 0},
                                                {"factor_of_nan", NAN, 0},
                                                {"factor_of_infinity", INFINITY, 0},
                                                {"write_past_info", 1, 1}};

static tenon_status* describe_schedule(void* opaque, tenon_lr_scheduler_info* out) {
  const ScheduleFault* fault = ((const Instance*)opaque)->fault;
  volatile char* beyond = (volatile char*)out + sizeof(*out);
  for (int i = 0; fault->is_info_bad != 0 && i < 64; ++i) {
    beyond[i] = 0x11;
  }
  return NULL;
}

static tenon_status* factor(void* opaque, tenon_lr_factor_args* args) {
  const ScheduleFault* fault = ((const Instance*)opaque)->fault;
  args->out_factor = args->step + 1 >= BAD_STEP ? fault->factor : 1;
  return NULL;
}

static const tenon_lr_scheduler kScheduleTable = {
    .struct_size = sizeof(tenon_lr_scheduler), .describe = describe_schedule, .factor = factor};

DEFINE_CREATE(create_schedule, kScheduleFaults)

const tenon_component bad_schedule_component = COMPONENT("lr_scheduler",
                                                         "bad_schedule",
                                                         TENON_LR_SCHEDULER_ID,
                                                         kScheduleTable,
                                                         create_schedule,
                                                         OPTIONS_SCHEMA(""));
