/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over the host's compute threads. A plugin starts no threads of its own for computing: the
 * number of threads is the recipe's, and part of what makes a run repeatable. */
#ifndef TENON_PARALLEL_H
#define TENON_PARALLEL_H

#include "status.h"

TENON_C_BEGIN

#define TENON_PARALLEL_ID "tenon.parallel/1"

typedef struct tenon_parallel_api {
  size_t struct_size;
  /* Calls body(context, begin, end) for disjoint pieces of [0, n) of at least `grain`, at once, and
   * returns when all are done. Pieces depend on n, grain and the thread count alone. Nested calls
   * run in line. Errors   the status of the piece with the lowest begin that failed Threads [step],
   * [worker] Owner    `context` is the caller's Since    0.1 */
  tenon_status* (*run)(const tenon_host* host,
                       size_t n,
                       size_t grain,
                       tenon_status* (*body)(void* context, size_t begin, size_t end),
                       void* context);
  uint32_t (*num_threads)(const tenon_host* host);
} tenon_parallel_api;

TENON_SEAL(tenon_parallel_api, num_threads);

TENON_C_END
#endif
