/* SPDX-License-Identifier: Apache-2.0
 *
 * Exponential decay of the learning rate in plain C:
 *
 *     factor = max(least, 2^(-step / half_life)) */
#include <tenon/tenon.h>

#include <math.h>
#include <stdlib.h>

typedef struct MyPlugin {
  double half_life; /* in steps */
  double least;
} MyPlugin;

static tenon_status* describe(void* self, tenon_lr_scheduler_info* out) {
  (void)self;
  out->needs_total = 0; /* the factor depends on the step alone */
  return NULL;
}

/* A pure function of the step: a resumed run asks for any step, and skipped updates count. */
static tenon_status* factor(void* self, tenon_lr_factor_args* args) {
  const MyPlugin* schedule = self;
  args->out_factor = fmax(schedule->least, exp2(-(double)args->step / schedule->half_life));
  return NULL;
}

/* The host has validated the options against the schema below and filled in the defaults. */
static tenon_status* read_options(const tenon_host* host,
                                  const tenon_create_args* args,
                                  MyPlugin* out) {
  const tenon_options_api* options = host->get_interface(host, TENON_OPTIONS_ID);
  const tenon_status_api* statuses = host->get_interface(host, TENON_STATUS_ID);
  tenon_status* status = options->get_double(args->options, "/half_life", &out->half_life);
  if (status == NULL) {
    status = options->get_double(args->options, "/least", &out->least);
  }
  if (status == NULL && out->least == 1) {
    status = statuses->make(host,
                            TENON_INVALID,
                            "my_plugin.least",
                            "least is 1, so the factor is always 1; remove the schedule",
                            __FILE__,
                            __LINE__);
  }
  return status;
}

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  const tenon_status_api* statuses = host->get_interface(host, TENON_STATUS_ID);
  MyPlugin schedule = {0};
  tenon_status* status = read_options(host, args, &schedule);
  if (status != NULL) {
    return status;
  }
  MyPlugin* made = malloc(sizeof *made);
  if (made == NULL) {
    return statuses->make(
        host, TENON_OUT_OF_MEMORY, "my_plugin.memory", "out of memory", __FILE__, __LINE__);
  }
  *made = schedule;
  *out_self = made;
  return NULL;
}

static void destroy(void* self) {
  free(self);
}

static const char schema[] =
    "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
    "\"half_life\": {\"type\": \"number\", \"exclusiveMinimum\": 0, \"default\": 1000,"
    " \"description\": \"steps after which the learning rate is halved\"},"
    "\"least\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 1, \"default\": 0,"
    " \"description\": \"smallest factor\"}}}";

static const tenon_lr_scheduler table = {sizeof table, describe, factor};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "lr_scheduler",
                                          .type = "my_plugin",
                                          .interface_id = TENON_LR_SCHEDULER_ID,
                                          .table = &table,
                                          .summary = "Exponential decay by half-life",
                                          .options_schema = schema,
                                          .create = create,
                                          .destroy = destroy};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
