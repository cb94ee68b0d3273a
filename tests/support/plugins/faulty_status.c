/* SPDX-License-Identifier: Apache-2.0
 *
 * A hook in plain C that answers its only event with an error, whose texts may be there, empty or
 * null. */
#include <tenon/tenon.h>

#include <stdlib.h>

typedef struct FaultyStatus {
  const tenon_host* host;
  const tenon_status_api* status;
  int64_t texts;
} FaultyStatus;

static tenon_status* describe(void* self, tenon_hook_info* out) {
  (void)self;
  out->events = TENON_EVENT_BIT(TENON_EVENT_AFTER_FORWARD);
  return NULL;
}

static tenon_status* on_event(void* self, const tenon_event* event) {
  const FaultyStatus* hook = self;
  (void)event;
  switch (hook->texts) {
    case 0: /* all null, and a code that is none */
      return hook->status->make(hook->host, TENON_OK, NULL, NULL, NULL, 0);
    case 1:
      return hook->status->make(hook->host, 12345, "", "", "", -1);
    case 2:
      return hook->status->make(
          hook->host, TENON_OUT_OF_MEMORY, "c.memory", "wanted 7 pages", NULL, 0);
    default:
      return hook->status->make(
          hook->host, TENON_IO, "c.said", "said in C", "/build/of/somebody/hook.c", 12);
  }
}

static const tenon_hook table = {sizeof table, describe, on_event};

static tenon_status* create(const tenon_host* host,
                            const tenon_create_args* args,
                            void** out_self) {
  const tenon_options_api* options = host->get_interface(host, TENON_OPTIONS_ID);
  FaultyStatus* made = malloc(sizeof *made);
  made->host = host;
  made->status = host->get_interface(host, TENON_STATUS_ID);
  *out_self = made;
  return options->get_int(args->options, "/texts", &made->texts);
}

static void destroy(void* self) {
  free(self);
}

static const tenon_component component = {
    .struct_size = sizeof component,
    .kind = "hook",
    .type = "faulty_status",
    .interface_id = TENON_HOOK_ID,
    .table = &table,
    .summary = "for tests: answers with an error, in plain C",
    .options_schema =
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": "
        "{\"texts\": {\"type\": \"integer\", \"default\": 3, "
        "\"description\": \"which texts the error has\"}}}",
    .create = create,
    .destroy = destroy,
    .get_extension = NULL};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
