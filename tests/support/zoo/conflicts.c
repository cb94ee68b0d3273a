/* SPDX-License-Identifier: Apache-2.0
 *
 * Built twice: each of the two is sound, and they cannot live in one process. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "minimal_loss.h"

__attribute__((constructor)) static void claim(void) {
  if (getenv("TENON_ZOO_CLAIMED") != NULL) {
    abort();
  }
  setenv("TENON_ZOO_CLAIMED", "1", 1);
}

static const tenon_component component = ZOO_LOSS("zoo");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
