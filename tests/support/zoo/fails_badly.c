/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss that does the wrong thing when a service of the host fails in `create`: with ZOO_IGNORES
 * it goes on as if the service had not failed, and otherwise it leaves what it made before. */
#include <tenon/memory.h>
#include <tenon/tensor.h>

#include <stdlib.h>

#include "minimal_loss.h"

#define ZOO_BYTES 64

static const tenon_memory_api* memory;
static const tenon_tensor_api* tensors;

typedef struct held {
  tenon_tensor* weight;
  char* bytes;
} held;

static tenon_status* create_held(const tenon_host* host,
                                 const tenon_create_args* args,
                                 void** out_self) {
  const tenon_device cpu = {TENON_CPU, -1};
  void* bytes = NULL;
  (void)args;
  held* self = calloc(1, sizeof(*self));
  if (self == NULL) {
    abort();
  }
  tenon_status* failed = tensors->full(host, TENON_F32, cpu, 0, NULL, 1.0, &self->weight);
#ifndef ZOO_IGNORES
  if (failed != NULL) {
    free(self);
    return failed;
  }
#endif
  if (failed == NULL) {
    failed = memory->allocate(host, ZOO_BYTES, &bytes);
  }
#ifdef ZOO_IGNORES
  if (failed == NULL) {
    ((volatile char*)bytes)[0] = 1;
  }
  failed = NULL; /* and the status is left */
#else
  if (failed != NULL) {
    return failed; /* and the instance and its tensor are left */
  }
#endif
  self->bytes = bytes;
  *out_self = self;
  return failed;
}

static void destroy_held(void* opaque) {
  held* self = opaque;
  tensors->release(self->weight);
  memory->release(self->bytes);
  free(self);
}

static tenon_component component = ZOO_LOSS("zoo");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  memory = args->host->get_interface(args->host, TENON_MEMORY_ID);
  tensors = args->host->get_interface(args->host, TENON_TENSOR_ID);
  component.create = create_held;
  component.destroy = destroy_held;
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
