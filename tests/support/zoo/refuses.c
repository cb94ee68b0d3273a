/* SPDX-License-Identifier: Apache-2.0
 *
 * Returns an error from its entry. */
#include <tenon/plugin.h>

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  const tenon_status_api* statuses = args->host->get_interface(args->host, TENON_STATUS_ID);
  return statuses->make(
      args->host, TENON_UNSUPPORTED, "zoo.no_gpu", "this plugin needs a GPU", __FILE__, __LINE__);
}
