// SPDX-License-Identifier: Apache-2.0
//
// The words of an exact sum of fp64 values that are not negative, and the arithmetic on them, for
// the CPU and for CUDA. exact_sum.hpp is the class on the CPU.
//
// A sum is a fixed-point number with a bit for each power of 2 that an fp64 value can contain. Word
// k is an integer that counts units of 2^(32 k - 1074), so adding a value adds at most 32 bits to
// each of three words. Words of several sums add up to the words of their total, in any order. The
// last two words count infinities and NaNs.
// Limits: the words of at most 2^31 - 1 values do not overflow, on however many ranks these are.
// After `carry_exact` they count as one value.
// Source: Kulisch, Computer Arithmetic and Validity (2008), chapter 8; the delayed carries are as
//         in Neal, Fast exact summation using small and large superaccumulators (2015).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define TENON_EXACT_INLINE __host__ __device__ inline
#else
#define TENON_EXACT_INLINE inline
#endif

namespace tenon {

// 2^-1074 to 2^1024, and 31 bits for carries.
inline constexpr int kExactDigits = 67;
inline constexpr int kExactInfinities = kExactDigits;
inline constexpr int kExactNans = kExactDigits + 1;
inline constexpr int kExactWords = kExactDigits + 2;
inline constexpr int kExactDigitBits = 32;
inline constexpr uint64_t kExactDigitMask = (uint64_t{1} << kExactDigitBits) - 1;
inline constexpr int kExactLowest = -1074;  // exponent of the lowest bit of word 0

// What a value adds to the words from `word` on. For an infinity or a NaN, digits[0] is 1 and the
// others are 0.
struct ExactTerm {
  int word;
  int num_words;
  int64_t digits[3];
};

TENON_EXACT_INLINE ExactTerm exact_term(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  const uint64_t exponent = (bits >> 52) & 0x7FF;
  if (exponent == 0x7FF) {
    return {(bits & kFraction) == 0 ? kExactInfinities : kExactNans, 1, {1, 0, 0}};
  }
  const uint64_t is_normal = exponent != 0 ? 1 : 0;
  const uint64_t mantissa = (bits & kFraction) | (is_normal << 52);
  const uint64_t lowest = exponent - is_normal;  // bit of the sum that its lowest bit is
  const uint64_t shift = lowest % kExactDigitBits;
  const uint64_t low = mantissa << shift;
  const uint64_t high = (mantissa >> 1) >> (63 - shift);
  return {static_cast<int>(lowest / kExactDigitBits),
          3,
          {static_cast<int64_t>(low & kExactDigitMask),
           static_cast<int64_t>(low >> kExactDigitBits),
           static_cast<int64_t>(high)}};
}

// Makes each digit less than 2^32. The sum stays the same.
TENON_EXACT_INLINE void carry_exact(int64_t* words) {
  int64_t carry = 0;
  for (int k = 0; k < kExactDigits - 1; ++k) {
    carry += words[k];
    words[k] = carry & static_cast<int64_t>(kExactDigitMask);
    carry >>= kExactDigitBits;
  }
  words[kExactDigits - 1] += carry;
}

// Returns the sum, rounded once to nearest, ties to even: NaN if a value was NaN, and infinity if a
// value was infinite or the sum exceeds fp64. Call `carry_exact` first.
TENON_EXACT_INLINE double exact_value(const int64_t* words) {
  if (words[kExactInfinities] != 0 || words[kExactNans] != 0) {
    return words[kExactNans] != 0 ? std::nan("") : HUGE_VAL;
  }
  int top = kExactDigits - 1;
  while (top >= 0 && words[top] == 0) {
    --top;
  }
  if (top < 0) {
    return 0;
  }
  // The 64 bits from the highest one down; what lies below them decides ties.
  const auto digit = [words, top](int below) {
    return top >= below ? static_cast<uint64_t>(words[top - below]) : uint64_t{0};
  };
  int zeros = 0;  // above the highest bit of its word
  while ((digit(0) >> (kExactDigitBits - 1 - zeros)) == 0) {
    ++zeros;
  }
  const int kept = kExactDigitBits - zeros;  // bits of the third word that are below the 64
  const uint64_t bits =
      (digit(0) << (kExactDigitBits + zeros)) | (digit(1) << zeros) | (digit(2) >> kept);
  bool has_rest = (digit(2) & ((uint64_t{1} << kept) - 1)) != 0;
  for (int k = top - 3; k >= 0 && !has_rest; --k) {
    has_rest = words[k] != 0;
  }
  constexpr int kDropped = 64 - 53;
  constexpr uint64_t kHalf = uint64_t{1} << (kDropped - 1);
  uint64_t mantissa = bits >> kDropped;
  const uint64_t dropped = bits & (2 * kHalf - 1);
  if (dropped > kHalf || (dropped == kHalf && (has_rest || (mantissa & 1) != 0))) {
    ++mantissa;
  }
  return std::ldexp(static_cast<double>(mantissa),
                    kExactDigitBits * (top - 1) - zeros + kDropped + kExactLowest);
}

}  // namespace tenon
