/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs loops on the host's compute threads. Plugins start no compute threads themselves: the
 * recipe sets the number of threads, and reproducibility depends on it. */
#ifndef TENON_PARALLEL_H
#define TENON_PARALLEL_H

#include "status.h"

TENON_C_BEGIN

#define TENON_PARALLEL_ID "tenon.parallel/1"

/* Service TENON_PARALLEL_ID. */
typedef struct tenon_parallel_api {
  size_t struct_size;
  /* Splits [0, n) into disjoint ranges of at least `grain` elements, and calls body(context, begin,
   * end) for the ranges in parallel. It returns when all calls have returned. The ranges depend
   * only on n, grain and the number of threads. Nested calls run serially. If n is smaller than
   * `grain`, there is one range; if n is 0, `body` is not called.
   *
   * Errors   the status of the failed range with the lowest begin; TENON_INVALID if `body` is null
   * Threads  [step], [worker]
   * Owner    `context` belongs to the caller
   * Since    0.1 */
  tenon_status* (*run)(const tenon_host* host,
                       size_t n,
                       size_t grain,
                       tenon_status* (*body)(void* context, size_t begin, size_t end),
                       void* context);
  /* Returns the number of compute threads, at least 1.
   *
   * Threads  [any]
   * Since    0.1 */
  uint32_t (*num_threads)(const tenon_host* host);
} tenon_parallel_api;

TENON_SEAL(tenon_parallel_api, num_threads);

TENON_C_END
#endif
