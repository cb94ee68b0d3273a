// SPDX-License-Identifier: Apache-2.0
//
// Sums of squares of chunks of consecutive elements: the order in which a chunk is summed. CUDA
// kernels add in the same order (host/device/cuda/square_sums.cu).
// Invariant: a sum has the same bits for any vector width. Squares of fp32 values are exact in
// fp64, so there fused multiply-adds change nothing; for fp64 values the compiler must not use
// them. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tenon {

// Element k of a chunk adds to lane k % kSquareLanes, in fp64. Then the upper half of the lanes is
// added to the lower half, until one is left.
inline constexpr int64_t kSquareLanes = 16;

// Sets sums[c] to the sum of the squares of chunk c.
// Shapes  values [num * chunk]; chunk a multiple of kSquareLanes; sums [num], and one more if `num`
//         is odd
void sum_chunks(const float* values, int64_t chunk, int64_t num, double* sums);
void sum_chunks(const double* values, int64_t chunk, int64_t num, double* sums);

// Definitions for the two functions above. They are inlined into each version that TENON_SIMD
// makes.
namespace chunk_sums {

using Doubles = double __attribute__((vector_size(64)));
inline constexpr size_t kDoubles = 8;

// Sets halves[k] to lane k + lane k + 8, of a chunk. The plain loop is what compilers vectorize
// best.
template <class T>
[[gnu::always_inline]] inline void square_halves(const T* values, int64_t chunk, double* halves) {
  double lanes[kSquareLanes] = {};
#pragma GCC unroll 4
  for (int64_t i = 0; i < chunk; i += kSquareLanes) {
    for (int64_t k = 0; k < kSquareLanes; ++k) {
      const double value = values[i + k];
      lanes[k] += value * value;
    }
  }
  Doubles low;
  Doubles high;
  std::memcpy(&low, lanes, sizeof(low));
  std::memcpy(&high, lanes + kDoubles, sizeof(high));
  low += high;
  std::memcpy(halves, &low, sizeof(low));
}

// Computes the sums of two chunks at once, since the last additions of one would be a chain.
template <class T>
[[gnu::always_inline]] inline void sum_two(const T* a, const T* b, int64_t chunk, double* sums) {
  double halves_a[kDoubles];
  double halves_b[kDoubles];
  square_halves(a, chunk, halves_a);
  square_halves(b, chunk, halves_b);
  Doubles x;
  Doubles y;
  std::memcpy(&x, halves_a, sizeof(x));
  std::memcpy(&y, halves_b, sizeof(y));
  const auto eight = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11) +
                     __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
  const auto four = __builtin_shufflevector(eight, eight, 0, 1, 4, 5) +
                    __builtin_shufflevector(eight, eight, 2, 3, 6, 7);
  const auto two =
      __builtin_shufflevector(four, four, 0, 2) + __builtin_shufflevector(four, four, 1, 3);
  std::memcpy(sums, &two, sizeof(two));
}

template <class T>
[[gnu::always_inline]] inline void sum_all(const T* values,
                                           int64_t chunk,
                                           int64_t num,
                                           double* sums) {
  for (int64_t c = 0; c < num; c += 2) {
    const int64_t next = c + 1 < num ? c + 1 : c;
    sum_two(values + c * chunk, values + next * chunk, chunk, sums + c);
  }
}

}  // namespace chunk_sums
}  // namespace tenon
