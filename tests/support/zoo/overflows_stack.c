/* SPDX-License-Identifier: Apache-2.0
 *
 * Recurses until the stack is gone, so that a crash handler needs a stack of its own. */
#include <tenon/plugin.h>

#include <string.h>

static int recurse(volatile char* above) {
  volatile char frame[4096];
  memset((void*)frame, above[0], sizeof(frame));
  return frame[1] == 127 ? 0 : recurse(frame) + frame[2];
}

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  volatile char first[2] = {1, 1};
  args->out_abi_minor = (uint32_t)recurse(first);
  return NULL;
}
