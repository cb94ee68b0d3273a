/* SPDX-License-Identifier: Apache-2.0
 *
 * A learning-rate schedule that falls linearly from 1 to `last`. */
#include "museum.h"

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  double last = 0;
  void* self = NULL;
  MUSEUM_TRY(museum_create(host, args, &self));
  tenon_status* const status = ((museum*)self)->options->get_double(args->options, "/last", &last);
  if (status != NULL) {
    museum_destroy(self);
    return status;
  }
  ((museum*)self)->numbers[0] = last;
  *out_self = self;
  return NULL;
}

static tenon_status* describe(void* self, tenon_lr_scheduler_info* out) {
  (void)self;
  out->needs_total = 1;
  return NULL;
}

static tenon_status* factor(void* opaque, tenon_lr_factor_args* args) {
  const museum* const self = opaque;
  const double last = self->numbers[0];
  if (args->total == 0) {
    return MUSEUM_FAIL(self, TENON_INVALID, "the length of the run is unknown");
  }
  args->out_factor = 1.0 - (1.0 - last) * (double)args->step / (double)args->total;
  return NULL;
}

static const tenon_lr_scheduler table = {
    .struct_size = sizeof table, .describe = describe, .factor = factor};

static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "lr_scheduler",
    .type = "museum_linear",
    .interface_id = TENON_LR_SCHEDULER_ID,
    .table = &table,
    .summary = "a factor that falls linearly",
    .options_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
        "{\"last\": {\"type\": \"number\", \"minimum\": 0, \"default\": 0.5}}}",
    .create = create,
    .destroy = museum_destroy};

MUSEUM_PLUGIN("lr_scheduler", "lr_scheduler:museum_linear", component);
