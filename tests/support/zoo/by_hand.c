/* SPDX-License-Identifier: Apache-2.0
 *
 * A good plugin that is built without tenon_add_plugin(): with a manifest and the SDK's version
 * script. */
#include "minimal_loss.h"

TENON_MANIFEST(
    "id=org.tenon.zoo.by_hand\n"
    "version=1.0.0\n"
    "abi=" TENON_ABI_STRING
    "\n"
    "lane=stable\n"
    "component=loss:zoo\n");

static const tenon_component component = ZOO_LOSS("zoo");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
