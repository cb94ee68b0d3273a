/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that is no plugin: there is nothing in it for the host. */
#include <tenon/abi.h>

TENON_EXPORT int zoo_visitors(void);

int zoo_visitors(void) {
  return 3;
}
