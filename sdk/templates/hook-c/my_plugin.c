/* SPDX-License-Identifier: Apache-2.0
 *
 * A hook in plain C that reads the run: it records a moving average of the loss after each step,
 *
 *     average = decay * average + (1 - decay) * loss
 *
 * as the metric `my_plugin/loss`. Checkpoints store the average, so that a resumed run continues
 * it. */
#include <tenon/tenon.h>

#include <stdlib.h>
#include <string.h>

typedef struct MyPlugin {
  const tenon_status_api* statuses;
  double decay;
  double average;
  int64_t num_steps; /* steps in `average`; 0: none yet */
} MyPlugin;

/* Rank 0 has the loss of all ranks. */
static tenon_status* describe(void* self, tenon_hook_info* out) {
  (void)self;
  out->events = TENON_EVENT_BIT(TENON_EVENT_AFTER_OPTIMIZER_STEP);
  out->reads = TENON_TOUCH_LOSS;
  out->rank_0_only = 1;
  return NULL;
}

static tenon_status* on_event(void* self, const tenon_event* event) {
  MyPlugin* hook = self;
  double loss = 0;
  tenon_status* status = event->api->get_step_loss(event->run, &loss);
  if (hook->statuses->code(status) == TENON_NOT_FOUND) {
    hook->statuses->release(status); /* the loss is non-finite: the average ignores this step */
    return NULL;
  }
  if (status != NULL) {
    return status;
  }
  hook->average =
      hook->num_steps == 0 ? loss : hook->decay * hook->average + (1 - hook->decay) * loss;
  hook->num_steps += 1;
  return event->api->add_metric(event->run, "my_plugin/loss", hook->average);
}

/* ---- state ---- */

static uint32_t version(void* self) {
  (void)self;
  return 1;
}

static tenon_status* snapshot(void* self, tenon_state_writer* writer) {
  const MyPlugin* hook = self;
  tenon_status* status =
      writer->put_double(writer, "average", hook->average, TENON_STATE_REPLICATED);
  return status != NULL
             ? status
             : writer->put_int(writer, "num_steps", hook->num_steps, TENON_STATE_REPLICATED);
}

static tenon_status* load(void* self, tenon_state_reader* reader) {
  MyPlugin* hook = self;
  tenon_status* status = reader->get_double(reader, "average", &hook->average);
  return status != NULL ? status : reader->get_int(reader, "num_steps", &hook->num_steps);
}

static const tenon_stateful stateful = {sizeof stateful, version, snapshot, load};

static const void* get_extension(void* self, const char* id) {
  (void)self;
  return strcmp(id, TENON_STATEFUL_ID) == 0 ? &stateful : NULL;
}

/* ---- instances ---- */

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  const tenon_options_api* options = host->get_interface(host, TENON_OPTIONS_ID);
  const tenon_status_api* statuses = host->get_interface(host, TENON_STATUS_ID);
  double decay = 0;
  tenon_status* status = options->get_double(args->options, "/decay", &decay);
  if (status != NULL) {
    return status;
  }
  MyPlugin* made = calloc(1, sizeof *made);
  if (made == NULL) {
    return statuses->make(
        host, TENON_OUT_OF_MEMORY, "my_plugin.memory", "out of memory", __FILE__, __LINE__);
  }
  made->statuses = statuses;
  made->decay = decay;
  *out_self = made;
  return NULL;
}

static void destroy(void* self) {
  free(self);
}

static const char schema[] =
    "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
    "\"decay\": {\"type\": \"number\", \"minimum\": 0, \"exclusiveMaximum\": 1, \"default\": 0.98,"
    " \"description\": \"weight of the previous average\"}}}";

static const tenon_hook table = {sizeof table, describe, on_event};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "hook",
                                          .type = "my_plugin",
                                          .interface_id = TENON_HOOK_ID,
                                          .table = &table,
                                          .summary = "Records a moving average of the loss",
                                          .options_schema = schema,
                                          .create = create,
                                          .destroy = destroy,
                                          .get_extension = get_extension};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
