/* SPDX-License-Identifier: Apache-2.0
 *
 * Its manifest is right; its entry chooses ABI 0.ZOO_MINOR, or none where that is not defined. */
#include <tenon/plugin.h>

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
#ifdef ZOO_MINOR
  args->out_abi_minor = ZOO_MINOR;
#else
  (void)args;
#endif
  return NULL;
}
