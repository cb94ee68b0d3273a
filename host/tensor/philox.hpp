// SPDX-License-Identifier: Apache-2.0
//
// Random numbers as pure functions of (seed, stream, index), and a keyed permutation of [0, n).
// There is no state: the i-th number of a stream is the same on every rank and thread, in any
// order. Not for secrets.
// Invariant: the numbers never change from one release to the next, because checkpoints and data
// orders depend on them. Tests hold golden values.
// Threads: every function may be called from any thread.
//
// Source: Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// Philox-4x32-10: 128 bits from a counter and a key. Bitwise equal to the Random123 library.
std::array<uint32_t, 4> philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key) noexcept;

// The finalizer of splitmix64: a bijection of 64-bit numbers in which each bit depends on all.
//
// Source  Steele, Lea, Flood, Fast splittable pseudorandom number generators (OOPSLA 2014)
inline uint64_t mix_bits(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Derives a seed from a seed and a number, as in (run, step).
inline uint64_t mix_seeds(uint64_t seed, uint64_t more) noexcept {
  // Not symmetric: (a, b) and (b, a) give different seeds.
  return mix_bits(mix_bits(seed + 0x9E3779B97F4A7C15) + more);
}

// A stream number from a name: FNV-1a over its bytes, then mix_bits.
uint64_t stream_of(std::string_view name) noexcept;

// 64 uniform bits: number `index` of the stream.
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) noexcept;

// out[k] = number first + k of the stream, uniform in [0, 1): a multiple of 2^-53.
void fill_uniform(uint64_t seed, uint64_t stream, uint64_t first, std::span<double> out) noexcept;

// Same, from the standard normal distribution: sqrt(-2 log u) cos(2 pi v). Number i is computed
// from bits 2i and 2i + 1 of the stream, and so depends on no other number.
//
// Source  Box, Muller, A note on the generation of random normal deviates (1958)
void fill_normal(uint64_t seed, uint64_t stream, uint64_t first, std::span<double> out) noexcept;

// Same, truncated at two standard deviations: the inverse of the normal distribution function at a
// uniform number between its values at -2 and 2.
void fill_trunc_normal(uint64_t seed,
                       uint64_t stream,
                       uint64_t first,
                       std::span<double> out) noexcept;

// The inverse of the standard normal distribution function; relative error 1e-15. p in (0, 1).
//
// Source  Wichura, Algorithm AS 241: The percentage points of the normal distribution (1988)
double inverse_normal_cdf(double p) noexcept;

// Returns element i of a pseudo-random permutation of [0, n), i < n. Permutations for different n
// are unrelated. It takes half a microsecond on average (n below 16: up to four), and no memory.
//
// Source  Black, Rogaway, Ciphers with arbitrary finite domains (CT-RSA 2002): a Feistel network on
//         the smallest domain of 4^h that holds n (at least 64), applied until the result is below
//         n
uint64_t permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i) noexcept;

}  // namespace tenon
