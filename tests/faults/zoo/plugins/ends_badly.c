/* SPDX-License-Identifier: Apache-2.0
 *
 * Works until the process ends. ZOO_SHUTDOWN is the statement of its shutdown, ZOO_DESTRUCTOR that
 * of its ELF destructor. With ZOO_THREAD, a thread of it calls the host until the process is gone.
 * All of that happens only where an instance was created. */
#define _POSIX_C_SOURCE 200809L
#include <tenon/log.h>
#include <tenon/tensor.h>

#include <pthread.h>
#include <unistd.h>

#include "quiet_hook.h"

__attribute__((unused)) static void crash(void) {
  *(volatile char*)NULL = 1;
}

__attribute__((unused)) static void hang(void) {
  for (;;) {
    pause();
  }
}

#ifdef ZOO_SHUTDOWN
static void shut_down(void) {
  if (num_instances > 0) {
    ZOO_SHUTDOWN;
  }
}
#endif

#ifdef ZOO_DESTRUCTOR
__attribute__((destructor)) static void unload(void) {
  if (num_instances > 0) {
    ZOO_DESTRUCTOR;
  }
}
#endif

static tenon_component component = QUIET_HOOK;

#ifdef ZOO_THREAD
static void* call_host(void* opaque) {
  const tenon_host* host = opaque;
  const tenon_log_api* log = host->get_interface(host, TENON_LOG_ID);
  const tenon_tensor_api* tensors = host->get_interface(host, TENON_TENSOR_ID);
  const tenon_device cpu = {TENON_CPU, -1};
  for (;;) {
    tenon_tensor* made = NULL;
    if (tensors->full(host, TENON_F32, cpu, 0, NULL, 1, &made) == NULL) {
      tensors->release(made);
    }
    log->write(host, TENON_LOG_DEBUG, "still here");
  }
  return NULL;
}

static tenon_status* create_with_thread(const tenon_host* host,
                                        const tenon_create_args* args,
                                        void** out_self) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, call_host, (void*)host) == 0) {
    pthread_detach(thread);
  }
  return create_quiet(host, args, out_self);
}
#endif

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
#ifdef ZOO_SHUTDOWN
  args->out_shutdown = shut_down;
#endif
#ifdef ZOO_THREAD
  component.create = create_with_thread;
#endif
  return args->register_component(args->registrar, &component);
}
