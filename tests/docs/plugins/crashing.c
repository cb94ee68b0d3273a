/* SPDX-License-Identifier: Apache-2.0
 *
 * For docs/troubleshooting.md: a plugin that reads through a null pointer while it is being loaded.
 */
#include <tenon/plugin.h>

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  const volatile uint32_t* table = NULL;
  args->out_abi_minor = *table;
  return NULL;
}
