// SPDX-License-Identifier: Apache-2.0
//
// Vectors of SIMD_LANES floats and their operations. Included only by each_machine.hpp, once per
// instruction set, inside a namespace.
//
// Source of the exponential: Cody and Waite, Software Manual for the Elementary Functions (1980),
// chapter 6 (reduction by log 2 in two parts); coefficients of the Cephes library, expf.

inline constexpr int64_t kLanes = SIMD_LANES;

using Floats __attribute__((vector_size(SIMD_LANES * 4), aligned(4), may_alias)) = float;
using Ints __attribute__((vector_size(SIMD_LANES * 4), aligned(4), may_alias)) = int32_t;
using Words __attribute__((vector_size(SIMD_LANES * 4), aligned(4), may_alias)) = uint32_t;
using Halves __attribute__((vector_size(SIMD_LANES * 2), aligned(2), may_alias)) = uint16_t;

#define SIMD_INLINE inline __attribute__((always_inline))

SIMD_INLINE Floats load(const float* from) {
  return *reinterpret_cast<const Floats*>(from);
}
SIMD_INLINE void store(float* to, Floats x) {
  *reinterpret_cast<Floats*>(to) = x;
}
SIMD_INLINE Floats load(const Bf16* from) {
  const Words words = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words);
  return reinterpret_cast<Floats>(words << 16);
}

// Rounds to nearest, ties to even; NaN stays NaN.
SIMD_INLINE void store(Bf16* to, Floats x) {
  const Words bits = reinterpret_cast<Words>(x);
  const Words rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const Ints is_nan = x != x;
  const Words chosen = is_nan ? (bits >> 16) | 0x40u : rounded;
  *reinterpret_cast<Halves*>(to) = __builtin_convertvector(chosen, Halves);
}

SIMD_INLINE Floats splat(float x) {
  return x - Floats{};  // not a sum: the compiler must keep x + 0, which changes -0
}
SIMD_INLINE Floats larger(Floats a, Floats b) {
  return a > b ? a : b;
}

// Masked with all lanes set: gcc 12 warns about uninitialized values in the plain intrinsics (PR
// 105593).
#if TENON_SIMD_X86 && SIMD_LANES == 16
inline constexpr __mmask16 kAllLanes = 0xFFFF;
inline constexpr __mmask8 kAllPairs = 0xFF;
#endif

SIMD_INLINE Floats root_of(Floats x) {
#if TENON_SIMD_X86 && SIMD_LANES == 16
  return reinterpret_cast<Floats>(
      _mm512_mask_sqrt_ps(reinterpret_cast<__m512>(x), kAllLanes, reinterpret_cast<__m512>(x)));
#elif TENON_SIMD_X86 && SIMD_LANES == 8
  return reinterpret_cast<Floats>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#else
  for (int64_t i = 0; i < kLanes; ++i) {
    x[i] = __builtin_sqrtf(x[i]);
  }
  return x;
#endif
}

// The upper and lower halves of the products of 32-bit numbers.
SIMD_INLINE void multiply(Words x, uint32_t y, Words& high, Words& low) {
#if TENON_SIMD_X86 && SIMD_LANES == 16
  const __m512i even = reinterpret_cast<__m512i>(x);
  const __m512i factor = _mm512_set1_epi64(y);
  const __m512i products = _mm512_mask_mul_epu32(even, kAllPairs, even, factor);
  const __m512i odd = _mm512_mask_mul_epu32(
      even, kAllPairs, _mm512_mask_srli_epi64(even, kAllPairs, even, 32), factor);
  high = reinterpret_cast<Words>(_mm512_mask_mov_epi32(
      _mm512_mask_srli_epi64(products, kAllPairs, products, 32), 0xAAAA, odd));
  low = reinterpret_cast<Words>(
      _mm512_mask_mov_epi32(products, 0xAAAA, _mm512_mask_slli_epi64(odd, kAllPairs, odd, 32)));
#elif TENON_SIMD_X86 && SIMD_LANES == 8
  const __m256i even = reinterpret_cast<__m256i>(x);
  const __m256i factor = _mm256_set1_epi64x(y);
  const __m256i products = _mm256_mul_epu32(even, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(even, 32), factor);
  high = reinterpret_cast<Words>(_mm256_blend_epi32(_mm256_srli_epi64(products, 32), odd, 0xAA));
  low = reinterpret_cast<Words>(_mm256_blend_epi32(products, _mm256_slli_epi64(odd, 32), 0xAA));
#else
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint64_t product = static_cast<uint64_t>(x[i]) * y;
    high[i] = static_cast<uint32_t>(product >> 32);
    low[i] = static_cast<uint32_t>(product);
  }
#endif
}

// exp(x) to two ulp; 0 below -87.3, where results would be subnormal.
SIMD_INLINE Floats exp_of(Floats x) {
  constexpr float kLowest = -87.33654f;
  constexpr float kHighest = 88.72283f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Ints is_low = x < kLowest;
  const Ints is_high = x > kHighest;
  x = is_low ? splat(kLowest) : x;
  x = is_high ? splat(kHighest) : x;
  const Floats shifted = x * 1.44269504088896341f + kRound;
  const Floats n = shifted - kRound;
  Floats r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Floats p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Floats near_one = p * (r * r) + r + 1.0f;
  // 2^n in two factors, since n may be 128. The last bits of `shifted` are n.
  const Ints whole = reinterpret_cast<Ints>(shifted) - 0x4B400000;
  const Ints half = whole >> 1;
  const Floats y = near_one * reinterpret_cast<Floats>((half + 127) << 23) *
                   reinterpret_cast<Floats>((whole - half + 127) << 23);
  return is_low ? Floats{} : y;
}

// Pairwise: log2(SIMD_LANES) additions.
SIMD_INLINE float sum_of(Floats x) {
  float parts[kLanes];
  store(parts, x);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) {
      parts[i] += parts[i + half];
    }
  }
  return parts[0];
}

SIMD_INLINE float largest_of(Floats x) {
  float parts[kLanes];
  store(parts, x);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) {
      parts[i] = parts[i] > parts[i + half] ? parts[i] : parts[i + half];
    }
  }
  return parts[0];
}

// Loads the first `n` lanes; the others are `rest`.
template <class T>
SIMD_INLINE Floats load_part(const T* from, int64_t n, float rest) {
  T part[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    part[i] = from[i];
  }
  Floats x = load(part);
  for (int64_t i = n; i < kLanes; ++i) {
    x[i] = rest;
  }
  return x;
}

template <class T>
SIMD_INLINE void store_part(T* to, Floats x, int64_t n) {
  T part[kLanes];
  store(part, x);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = part[i];
  }
}
