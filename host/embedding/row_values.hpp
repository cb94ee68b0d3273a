// SPDX-License-Identifier: Apache-2.0
//
// Initial values of a table's rows. Each element depends only on (seed, id, element) and on the
// initializer. A run may create millions of rows per second, so the generator takes only a few
// multiplications. The arithmetic is in fp32, with additions, multiplications, divisions and square
// roots only, which give the same bits on every machine. Not for parameters: see initializer.hpp.
//
// Invariant: the numbers never change from one release to the next. Tests hold golden values.
// Threads: any.
//
// Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators (OOPSLA 2014): stream
// mix_seeds(seed, id), 32 bits per element. Box, Muller (1958) for the normal distribution: two
// elements from two words. Giles, Approximating the erfinv function (GPU Computing Gems 2, 2010)
// for the truncated normal distribution. Moshier's Cephes library for the polynomials of logarithm,
// sine and cosine.

#pragma once

#include <cstdint>
#include <span>

namespace tenon {

struct RowInit;

// Sets out[k] to element k of the row of `id`, in fp32. `init` must satisfy is_legal_init().
void fill_row_values(const RowInit& init, uint64_t seed, int64_t id, std::span<float> out) noexcept;

}  // namespace tenon
