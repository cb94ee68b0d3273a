/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands for a libtorch that a plugin brings along: the host knows one by the name of its
 * file. */
#include <tenon/abi.h>

TENON_EXPORT int zoo_torch(void);

int zoo_torch(void) {
  return 1;
}
