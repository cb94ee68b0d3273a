/* SPDX-License-Identifier: Apache-2.0
 *
 * A hook that is called at no event, for plugins whose fault is elsewhere. Each includes it once
 * and registers QUIET_HOOK. `num_instances` counts the instances so far: plugins are also loaded
 * where nothing is created, in the child process that vets them and in the launcher. */
#ifndef TENON_TESTS_QUIET_HOOK_H
#define TENON_TESTS_QUIET_HOOK_H

#include <tenon/hook.h>
#include <tenon/plugin.h>

static int num_instances;

static tenon_status* create_quiet(const tenon_host* host,
                                  const tenon_create_args* args,
                                  void** out_self) {
  (void)host;
  (void)args;
  ++num_instances;
  *out_self = NULL;
  return NULL;
}

static void destroy_quiet(void* self) {
  (void)self;
}

static tenon_status* describe_quiet(void* self, tenon_hook_info* out) {
  (void)self;
  (void)out;
  return NULL;
}

static tenon_status* ignore_event(void* self, const tenon_event* event) {
  (void)self;
  (void)event;
  return NULL;
}

static const tenon_hook kQuietTable = {
    .struct_size = sizeof(tenon_hook), .describe = describe_quiet, .on_event = ignore_event};

#define QUIET_HOOK                                                                          \
  {                                                                                         \
    .struct_size = sizeof(tenon_component), .kind = "hook", .type = "quiet",                \
    .interface_id = TENON_HOOK_ID, .table = &kQuietTable, .summary = "for tests: is quiet", \
    .options_schema =                                                                       \
        "{\"type\": \"object\", \"properties\": {}, "                                       \
        "\"additionalProperties\": false}",                                                 \
    .create = create_quiet, .destroy = destroy_quiet                                        \
  }

#endif
