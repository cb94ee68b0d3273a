/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers the losses ZOO_FIRST and, where it is defined, ZOO_SECOND, whatever its manifest says.
 */
#include "minimal_loss.h"

static const tenon_component first = ZOO_LOSS(ZOO_FIRST);
#ifdef ZOO_SECOND
static const tenon_component second = ZOO_LOSS(ZOO_SECOND);
#endif

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  tenon_status* failed = args->register_component(args->registrar, &first);
#ifdef ZOO_SECOND
  if (failed == NULL) {
    failed = args->register_component(args->registrar, &second);
  }
#endif
  return failed;
}
