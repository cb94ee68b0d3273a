/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that must be refused before any of its code runs: loading it aborts. Its manifest is
 * ZOO_MANIFEST. */
#include <tenon/plugin.h>

#include <stdlib.h>

TENON_MANIFEST(ZOO_MANIFEST);

__attribute__((constructor)) static void abort_at_once(void) {
  abort();
}

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  (void)args;
  return NULL;
}
