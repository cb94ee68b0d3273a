/* SPDX-License-Identifier: Apache-2.0
 *
 * Generates random numbers that depend on their purpose, not on when or where they are drawn. The
 * generator is counter-based and keyed by (seed, stream): the i-th number of a stream is the same
 * on every rank and thread.
 *
 * Source   Philox-4x32-10; Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011) */
#ifndef TENON_RANDOM_H
#define TENON_RANDOM_H

#include "status.h"

TENON_C_BEGIN

#define TENON_RANDOM_ID "tenon.random/1"

/* Service TENON_RANDOM_ID. Every function is a pure function of its arguments.
 *
 * Errors   TENON_INVALID if `out` is null and n is not 0
 * Threads  [any]
 * Since    0.1 */
typedef struct tenon_random_api {
  size_t struct_size;
  /* Returns 64 uniform bits: number `index` of the stream. */
  uint64_t (*bits)(uint64_t seed, uint64_t stream, uint64_t index);
  /* Returns a stream number derived from a name, so that streams need no registry. */
  uint64_t (*stream_of)(const char* name);
  /* Sets out[k] to number first + k, uniform in [0, 1), for k in [0, n). */
  tenon_status* (*fill_uniform)(
      uint64_t seed, uint64_t stream, uint64_t first, size_t n, double* out);
  /* Sets out[k] to number first + k of the standard normal distribution, for k in [0, n). The
   * method is Box-Muller, on one pair of 53-bit uniforms per number. */
  tenon_status* (*fill_normal)(
      uint64_t seed, uint64_t stream, uint64_t first, size_t n, double* out);
  /* Returns element i of a pseudo-random permutation of [0, n), for n > 0 and i < n. It uses no
   * memory; elements may be read in any order. */
  uint64_t (*permute)(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);
} tenon_random_api;

TENON_SEAL(tenon_random_api, permute);

TENON_C_END
#endif
