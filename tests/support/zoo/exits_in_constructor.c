/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends the process while the library is being mapped. */
#include <tenon/plugin.h>

#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void give_up(void) {
  _exit(7);
}

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  (void)args;
  return NULL;
}
