/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints more than a pipe holds before it aborts: what it printed last must not be lost. */
#include <tenon/plugin.h>

#include <stdio.h>
#include <stdlib.h>

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  (void)args;
  for (int i = 0; i < 20000; ++i) {
    printf("line %d of the zoo\n", i);
  }
  fputs("nothing left to say\n", stderr);
  abort();
}
