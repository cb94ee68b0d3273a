/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers a component with one thing wrong, which ZOO_CHANGE(component) makes. It then ignores
 * the host's answer, as a careless plugin does. */
#include "minimal_loss.h"

static tenon_component component = ZOO_LOSS("zoo");
/* Some of the changes need it. */
static const size_t rubbish_table[2] = {(size_t)-1, 0};

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  const tenon_status_api* statuses = args->host->get_interface(args->host, TENON_STATUS_ID);
  (void)rubbish_table;
  args->out_abi_minor = TENON_ABI_MINOR;
  ZOO_CHANGE;
  statuses->release(args->register_component(args->registrar, &component));
  return NULL;
}
