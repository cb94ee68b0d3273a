// SPDX-License-Identifier: Apache-2.0
//
// 64-bit hashes of bytes, compatible with the original libraries, so that ids match. Assumes
// little-endian machines.
// Source   FarmHash (Pike, Google, 2014; MIT license), farmhashna::Hash64, which Fingerprint64 is;
//          MurmurHash2, 64-bit version for 64-bit machines ("MurmurHash64A"), and
//          MurmurHash3_x64_128 (Appleby, 2008 and 2011; public domain)
#ifndef TENON_PLUGINS_FEATURES_BYTE_HASH_HPP
#define TENON_PLUGINS_FEATURES_BYTE_HASH_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tenon_features {

inline uint64_t load64(const uint8_t* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}
inline uint32_t load32(const uint8_t* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}
inline uint64_t rotate_right(uint64_t word, int bits) {
  return (word >> bits) | (word << (64 - bits));
}
inline uint64_t rotate_left(uint64_t word, int bits) {
  return (word << bits) | (word >> (64 - bits));
}

/* ---- FarmHash ---- */

namespace farm {

constexpr uint64_t kA = 0xc3a5c85c97cb3127;  // primes between 2^63 and 2^64
constexpr uint64_t kB = 0xb492b66fbe98f273;
constexpr uint64_t kC = 0x9ae16a3b2f90404f;

inline uint64_t mix(uint64_t word) {
  return word ^ (word >> 47);
}

inline uint64_t of_two(uint64_t u, uint64_t v, uint64_t factor) {
  const uint64_t a = mix((u ^ v) * factor);
  return mix((v ^ a) * factor) * factor;
}

inline uint64_t up_to_16(const uint8_t* s, size_t n) {
  const uint64_t factor = kC + n * 2;
  if (n >= 8) {
    const uint64_t a = load64(s) + kC;
    const uint64_t b = load64(s + n - 8);
    return of_two(rotate_right(b, 37) * factor + a, (rotate_right(a, 25) + b) * factor, factor);
  }
  if (n >= 4) {
    const uint64_t first = load32(s);
    return of_two(n + (first << 3), load32(s + n - 4), factor);
  }
  if (n > 0) {
    const uint32_t y = s[0] + (uint32_t{s[n >> 1]} << 8);
    const uint32_t z = static_cast<uint32_t>(n) + (uint32_t{s[n - 1]} << 2);
    return mix((y * kC) ^ (z * kA)) * kC;
  }
  return kC;
}

inline uint64_t up_to_32(const uint8_t* s, size_t n) {
  const uint64_t factor = kC + n * 2;
  const uint64_t a = load64(s) * kB;
  const uint64_t b = load64(s + 8);
  const uint64_t c = load64(s + n - 8) * factor;
  const uint64_t d = load64(s + n - 16) * kC;
  return of_two(
      rotate_right(a + b, 43) + rotate_right(c, 30) + d, a + rotate_right(b + kC, 18) + c, factor);
}

inline uint64_t up_to_64(const uint8_t* s, size_t n) {
  const uint64_t factor = kC + n * 2;
  const uint64_t a = load64(s) * kC;
  const uint64_t b = load64(s + 8);
  const uint64_t c = load64(s + n - 8) * factor;
  const uint64_t d = load64(s + n - 16) * kC;
  const uint64_t y = rotate_right(a + b, 43) + rotate_right(c, 30) + d;
  const uint64_t z = of_two(y, a + rotate_right(b + kC, 18) + c, factor);
  const uint64_t e = load64(s + 16) * factor;
  const uint64_t f = load64(s + 24);
  const uint64_t g = (y + load64(s + n - 32)) * factor;
  const uint64_t h = (z + load64(s + n - 24)) * factor;
  return of_two(
      rotate_right(e + f, 43) + rotate_right(g, 30) + h, e + rotate_right(f + a, 18) + g, factor);
}

struct Pair {
  uint64_t first = 0;
  uint64_t second = 0;
};

// Weak hash of 32 bytes and two seeds.
inline Pair weak(const uint8_t* s, uint64_t a, uint64_t b) {
  const uint64_t w = load64(s);
  const uint64_t x = load64(s + 8);
  const uint64_t y = load64(s + 16);
  const uint64_t z = load64(s + 24);
  a += w;
  b = rotate_right(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  b += rotate_right(a, 44);
  return {a + z, b + c};
}

inline uint64_t beyond_64(const uint8_t* s, size_t n) {
  constexpr uint64_t kSeed = 81;
  uint64_t x = kSeed * kC + load64(s);
  uint64_t y = kSeed * kB + 113;
  uint64_t z = mix(y * kC + 113) * kC;
  Pair v;
  Pair w;
  const uint8_t* const end = s + (n - 1) / 64 * 64;
  const uint8_t* const last = end + ((n - 1) & 63) - 63;
  const auto round = [&](const uint8_t* at, uint64_t factor, uint64_t nine) {
    x = rotate_right(x + y + v.first + load64(at + 8), 37) * factor;
    y = rotate_right(y + v.second + load64(at + 48), 42) * factor;
    x ^= w.second * nine;
    y += v.first * nine + load64(at + 40);
    z = rotate_right(z + w.first, 33) * factor;
    v = weak(at, v.second * factor, x + w.first);
    w = weak(at + 32, z + w.second, y + load64(at + 16));
    std::swap(z, x);
  };
  for (; s != end; s += 64) {
    round(s, kB, 1);
  }
  const uint64_t factor = kB + ((z & 0xff) << 1);
  w.first += (n - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  round(last, factor, 9);
  return of_two(of_two(v.first, w.first, factor) + mix(y) * kA + z,
                of_two(v.second, w.second, factor) + x,
                factor);
}

}  // namespace farm

// Fingerprint64 of FarmHash.
inline uint64_t farm_hash(const uint8_t* s, size_t n) {
  return n <= 16   ? farm::up_to_16(s, n)
         : n <= 32 ? farm::up_to_32(s, n)
         : n <= 64 ? farm::up_to_64(s, n)
                   : farm::beyond_64(s, n);
}

/* ---- MurmurHash ---- */

// MurmurHash64A with the seed 0.
inline uint64_t murmur64_hash(const uint8_t* s, size_t n) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  uint64_t h = n * kFactor;
  for (; n >= 8; s += 8, n -= 8) {
    uint64_t k = load64(s) * kFactor;
    k = (k ^ (k >> 47)) * kFactor;
    h = (h ^ k) * kFactor;
  }
  if (n > 0) {
    for (size_t i = 0; i < n; ++i) {
      h ^= uint64_t{s[i]} << (8 * i);
    }
    h *= kFactor;
  }
  h = (h ^ (h >> 47)) * kFactor;
  return h ^ (h >> 47);
}

// The first half of MurmurHash3_x64_128 with the seed 0.
inline uint64_t murmur3_hash(const uint8_t* s, size_t n) {
  constexpr uint64_t kFirst = 0x87c37b91114253d5;
  constexpr uint64_t kSecond = 0x4cf5ad432745937f;
  const auto finish = [](uint64_t k) {
    k = (k ^ (k >> 33)) * 0xff51afd7ed558ccd;
    k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53;
    return k ^ (k >> 33);
  };
  const auto first = [](uint64_t k) { return rotate_left(k * kFirst, 31) * kSecond; };
  const auto second = [](uint64_t k) { return rotate_left(k * kSecond, 33) * kFirst; };
  const size_t size = n;
  uint64_t a = 0;
  uint64_t b = 0;
  for (; n >= 16; s += 16, n -= 16) {
    a = (rotate_left(a ^ first(load64(s)), 27) + b) * 5 + 0x52dce729;
    b = (rotate_left(b ^ second(load64(s + 8)), 31) + a) * 5 + 0x38495ab5;
  }
  uint8_t rest[16] = {};
  if (n > 0) {  // a word of zeros has no effect
    std::memcpy(rest, s, n);
    b ^= second(load64(rest + 8));
    a ^= first(load64(rest));
  }
  a ^= size;
  b ^= size;
  a += b;
  b += a;
  a = finish(a);
  b = finish(b);
  return a + b;
}

}  // namespace tenon_features

#endif
