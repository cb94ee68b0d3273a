/* SPDX-License-Identifier: Apache-2.0
 *
 * The host as a plugin sees it: a version, and services asked for by name. A plugin is handed one
 * `tenon_host` of its own, so that what it logs or reports as an error carries its name. */
#ifndef TENON_HOST_H
#define TENON_HOST_H

#include "abi.h"

TENON_C_BEGIN

typedef struct tenon_host tenon_host;

struct tenon_host {
  size_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  const char* version; /* of the host program, "0.1.0"; for messages only */
  void* impl;          /* the host's own */

  /* Returns the table of a service ("tenon.tensor/1"), or null if this host does not have it.
   * Tables live as long as the process. Threads [any]  Since 0.1 */
  const void* (*get_interface)(const tenon_host* host, const char* id);
};

TENON_SEAL(tenon_host, get_interface);

TENON_C_END
#endif
