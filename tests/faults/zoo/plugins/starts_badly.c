/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the statement ZOO_CONSTRUCTOR while it is mapped, or ZOO_ENTRY in its entry. Otherwise it
 * registers the component after ZOO_COMPONENT changed it. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "quiet_hook.h"

#ifdef ZOO_CONSTRUCTOR
__attribute__((constructor)) static void start(void) {
  ZOO_CONSTRUCTOR;
}
#endif

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  static tenon_component component = QUIET_HOOK;
  args->out_abi_minor = TENON_ABI_MINOR;
#ifdef ZOO_ENTRY
  ZOO_ENTRY;
#endif
#ifdef ZOO_COMPONENT
  ZOO_COMPONENT;
#endif
  return args->register_component(args->registrar, &component);
}
