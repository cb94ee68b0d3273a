/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that was linked with a libc10 of its own, and finds it by a path of its own. */
#include "minimal_loss.h"

TENON_MANIFEST("id=org.tenon.zoo.brings_torch\nversion=1.0.0\nabi=" TENON_ABI_STRING
               "\nlane=stable\ncomponent=loss:zoo\n");

extern int zoo_torch(void);

static const tenon_component component = ZOO_LOSS("zoo");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = (uint32_t)zoo_torch();
  return args->register_component(args->registrar, &component);
}
