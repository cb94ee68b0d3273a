/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers that depend on what they are for, not on when or where they are drawn: a
 * counter-based generator keyed by (seed, stream). The i-th number of a stream is the same on every
 * rank and thread.
 *
 * Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011): Philox-4x32-10. */
#ifndef TENON_RANDOM_H
#define TENON_RANDOM_H

#include "status.h"

TENON_C_BEGIN

#define TENON_RANDOM_ID "tenon.random/1"

/* All: Threads [any]; pure functions of their arguments. Since 0.1. */
typedef struct tenon_random_api {
  size_t struct_size;
  /* 64 uniform bits: number `index` of the stream. */
  uint64_t (*bits)(uint64_t seed, uint64_t stream, uint64_t index);
  /* A stream number from a name, so that streams need no registry. */
  uint64_t (*stream_of)(const char* name);
  /* out[k] = number first + k, uniform in [0, 1), k in [0, n). */
  tenon_status* (*fill_uniform)(
      uint64_t seed, uint64_t stream, uint64_t first, size_t n, double* out);
  /* The same from the standard normal distribution (Box-Muller on one pair of 53-bit uniforms
   * each). */
  tenon_status* (*fill_normal)(
      uint64_t seed, uint64_t stream, uint64_t first, size_t n, double* out);
  /* Element i of a pseudo-random permutation of [0, n), 0 < n; no memory, any order of calls. */
  uint64_t (*permute)(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);
} tenon_random_api;

TENON_SEAL(tenon_random_api, permute);

TENON_C_END
#endif
