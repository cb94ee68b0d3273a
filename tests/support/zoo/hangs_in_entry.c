/* SPDX-License-Identifier: Apache-2.0
 *
 * Never comes back from its entry, and leaves a child of its own that holds everything open. */
#include <tenon/plugin.h>

#include <stdio.h>
#include <unistd.h>

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  (void)args;
  fork();
  puts("the zoo waits for a lock");
  for (;;) {
    pause();
  }
}
