/* SPDX-License-Identifier: Apache-2.0
 *
 * Needs a function that nobody defines. */
#include <tenon/plugin.h>

TENON_MANIFEST("id=org.tenon.zoo.undefined_symbol\nversion=1.0.0\nabi=" TENON_ABI_STRING
               "\nlane=stable\ncomponent=loss:zoo\n");

extern int tenon_zoo_nowhere(void);

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = (uint32_t)tenon_zoo_nowhere();
  return NULL;
}
