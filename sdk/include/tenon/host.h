/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives a plugin access to the host: its version, and services looked up by id. Each plugin
 * receives its own `tenon_host`, so that its log lines and errors carry its name. */
#ifndef TENON_HOST_H
#define TENON_HOST_H

#include "abi.h"

TENON_C_BEGIN

typedef struct tenon_host tenon_host;

/* A plugin's handle to the host. It lives as long as the process. */
struct tenon_host {
  size_t struct_size;
  uint32_t abi_major;  /* major ABI version of the host */
  uint32_t abi_minor;  /* minor ABI version of the host */
  const char* version; /* version of the host program, "0.1.0"; for messages only */
  void* impl;          /* private to the host */

  /* Returns the function table of a service ("tenon.tensor/1"), or null if this host does not have
   * it.
   *
   * Threads  [any]
   * Owner    tables live as long as the process
   * Since    0.1 */
  const void* (*get_interface)(const tenon_host* host, const char* id);
};

TENON_SEAL(tenon_host, get_interface);

TENON_C_END
#endif
