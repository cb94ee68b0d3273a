/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "misbehaves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void crash(void) {
  *(volatile char*)NULL = 1;
}

void hang(void) {
  for (;;) {
    pause();
  }
}

static void leave(void) {
  exit(0);
}

/* Faults of any kind of component. */
static const struct {
  const char* name;
  void (*at_create)(void);
  void (*at_destroy)(void);
} kLifeFaults[] = {{"crash_in_create", crash, NULL},
                   {"exit_in_create", leave, NULL},
                   {"hang_in_create", hang, NULL},
                   {"crash_in_destroy", NULL, crash},
                   {"hang_in_destroy", NULL, hang}};

static const char* name_of(const void* fault) {
  return *(const char* const*)fault;
}

/* The fault of a kind; null if the list lacks it. */
static const void* find_fault(const FaultList* list, const char* name) {
  for (size_t i = 0; i < list->count; ++i) {
    const void* fault = (const char*)list->faults + i * list->size;
    if (strcmp(name_of(fault), name) == 0) {
      return fault;
    }
  }
  return NULL;
}

/* Finds the fault among those of any kind, and commits it if it is one of `create`. Returns 0 if
 * there is none of this name. */
static int begin_life_fault(Instance* self, const char* name) {
  for (size_t i = 0; i < sizeof(kLifeFaults) / sizeof(kLifeFaults[0]); ++i) {
    if (strcmp(kLifeFaults[i].name, name) == 0) {
      self->at_destroy = kLifeFaults[i].at_destroy;
      if (kLifeFaults[i].at_create != NULL) {
        kLifeFaults[i].at_create();
      }
      return 1;
    }
  }
  return 0;
}

tenon_status* create_instance(const tenon_host* host,
                              const tenon_create_args* args,
                              const FaultList* list,
                              void** out_self) {
  const tenon_options_api* options = host->get_interface(host, TENON_OPTIONS_ID);
  Instance made = {.host = host,
                   .status = host->get_interface(host, TENON_STATUS_ID),
                   .tensors = host->get_interface(host, TENON_TENSOR_ID),
                   .fault = list->faults};
  const char* name = NULL;
  int64_t rank = -1;
  RETURN_IF_FAILED(options->get_string(args->options, "/fault", &name));
  RETURN_IF_FAILED(options->get_int(args->options, "/rank", &rank));
  if (rank == -1 || args->mesh == NULL || rank == (int64_t)args->mesh->rank) {
    const void* fault = find_fault(list, name);
    if (fault != NULL) {
      made.fault = fault;
    } else if (!begin_life_fault(&made, name)) {
      char message[200];
      snprintf(message, sizeof(message), "no fault is called \"%s\"", name);
      return fail(&made, TENON_NOT_FOUND, message);
    }
  }
  Instance* self = malloc(sizeof(*self));
  if (self == NULL) {
    return fail(&made, TENON_OUT_OF_MEMORY, "no memory for an instance");
  }
  *self = made;
  *out_self = self;
  return NULL;
}

void destroy_instance(void* opaque) {
  Instance* self = opaque;
  if (self->at_destroy != NULL) {
    self->at_destroy();
  }
  free(self);
}

tenon_status* fail(const Instance* self, uint32_t code, const char* message) {
  return self->status->make(self->host, code, "misbehaves.asked", message, NULL, 0);
}

tenon_status* filled(
    const tenon_exec* exec, uint32_t dtype, int64_t numel, double value, tenon_tensor** out_own) {
  return exec->tensors->full(
      exec->host, dtype, exec->device, numel == 0 ? 0 : 1, &numel, value, out_own);
}

tenon_status* call_op(const tenon_exec* exec,
                      const char* name,
                      const tenon_any* args,
                      size_t num_args,
                      tenon_tensor** out_own) {
  const tenon_op* op = NULL;
  tenon_any result;
  size_t num_results = 1;
  RETURN_IF_FAILED(exec->ops->find(exec->host, name, &op));
  RETURN_IF_FAILED(exec->ops->call(exec->host, op, args, num_args, &result, &num_results));
  *out_own = result.v.tensor;
  return NULL;
}

tenon_any tensor_any(const tenon_tensor* tensor) {
  tenon_any any = {.tag = TENON_ANY_TENSOR};
  any.v.tensor = (tenon_tensor*)tensor;
  return any;
}

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  const tenon_component* const components[] = {&bad_loss_component,
                                               &old_loss_component,
                                               &bad_hook_component,
                                               &bad_model_component,
                                               &bad_map_component,
                                               &bad_stream_component,
                                               &bad_optimizer_component,
                                               &bad_schedule_component,
                                               &bad_metric_component,
                                               &bad_sink_component,
                                               &bad_tokenizer_component,
                                               &bad_feature_component,
                                               &bad_storage_component};
  args->out_abi_minor = TENON_ABI_MINOR;
  for (size_t i = 0; i < sizeof(components) / sizeof(components[0]); ++i) {
    RETURN_IF_FAILED(args->register_component(args->registrar, components[i]));
  }
  return NULL;
}
