/* SPDX-License-Identifier: Apache-2.0
 *
 * A sound loss, whose entry ends the process as TENON_ZOO_DEATH says: a number is a signal, any
 * other text its last words before it aborts. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "minimal_loss.h"

static const tenon_component component = ZOO_LOSS("zoo");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  const char* const death = getenv("TENON_ZOO_DEATH");
  if (death != NULL) {
    const int number = atoi(death);
    if (number > 0) {
      raise(number);
    }
    fprintf(stderr, "%s\n", death);
    abort();
  }
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
