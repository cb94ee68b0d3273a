/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads through a null pointer while it is being loaded. */
#include <tenon/plugin.h>

#include <stdio.h>

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  const volatile int* nothing = NULL;
  puts("the zoo is about to crash");
  args->out_abi_minor = (uint32_t)*nothing;
  return NULL;
}
