// SPDX-License-Identifier: Apache-2.0
//
// Compiled without contraction to fused operations, so that all machines give the same bits, and
// with vectorized loops.

#include "host/embedding/row_values.hpp"

#include <tenon/model.h>

#include "host/embedding/table_spec.hpp"
#include "host/tensor/philox.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

constexpr size_t kAtOnce = 32;  // elements at once; a multiple of 8
constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

// Writes words [first, first + n) of the stream; n is even. Word k is half k % 2 of the 64-bit
// number k / 2.
void fill_words(uint64_t stream, uint64_t first, size_t n, uint32_t* out) noexcept {
  for (size_t k = 0; k < n / 2; ++k) {
    const uint64_t bits = mix_bits(stream + (first / 2 + k + 1) * kGamma);
    out[2 * k] = static_cast<uint32_t>(bits);
    out[2 * k + 1] = static_cast<uint32_t>(bits >> 32);
  }
}

// Converts a word to a number in [0, 1), a multiple of 2^-24.
inline float to_unit(uint32_t word) noexcept {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24F;
}

// Returns the natural logarithm of a normal, positive x; relative error below 2e-7.
inline float log_of(float x) noexcept {
  const auto bits = std::bit_cast<int32_t>(x);
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)).
  const int32_t e = (bits - 0x3F3504F3) >> 23;
  const float m = std::bit_cast<float>(bits - (e << 23)) - 1.0F;
  const auto exponent = static_cast<float>(e);
  float y = 7.0376836292E-2F;
  y = y * m - 1.1514610310E-1F;
  y = y * m + 1.1676998740E-1F;
  y = y * m - 1.2420140846E-1F;
  y = y * m + 1.4249322787E-1F;
  y = y * m - 1.6668057665E-1F;
  y = y * m + 2.0000714765E-1F;
  y = y * m - 2.4999993993E-1F;
  y = y * m + 3.3333331174E-1F;
  const float z = m * m;
  y = y * m * z - 2.12194440e-4F * exponent - 0.5F * z;
  return m + y + 0.693359375F * exponent;
}

// Writes pairs of standard normal numbers, from words 2k and 2k + 1.
void normal_of(const uint32_t* words, size_t n, float* out) noexcept {
  for (size_t k = 0; k < n / 2; ++k) {
    // In (0, 1], and never so small that the logarithm is infinite.
    const float u = (static_cast<float>(static_cast<int32_t>(words[2 * k] >> 8)) + 1.0F) * 0x1p-24F;
    const float radius = std::sqrt(-2.0F * log_of(u));
    // An angle: the upper two bits select the quadrant; x is the offset in it, -pi/4 to pi/4.
    const uint32_t word = words[2 * k + 1];
    const uint32_t quarter = word >> 30;
    const float x = (static_cast<float>(static_cast<int32_t>((word << 2) >> 8)) * 0x1p-24F - 0.5F) *
                    1.57079632679489661923F;
    const float z = x * x;
    float sine = -1.9515295891E-4F;
    sine = sine * z + 8.3321608736E-3F;
    sine = sine * z - 1.6666654611E-1F;
    sine = sine * z * x + x;
    float cosine = 2.443315711809948E-005F;
    cosine = cosine * z - 1.388731625493765E-003F;
    cosine = cosine * z + 4.166664568298827E-002F;
    cosine = cosine * z * z - 0.5F * z + 1.0F;
    // Rotates by quadrants: odd ones swap sine and cosine; the signs depend on the quadrant.
    const float a = (quarter & 1) != 0 ? sine : cosine;
    const float b = (quarter & 1) != 0 ? cosine : sine;
    const float sign_a = ((quarter + 1) & 2) != 0 ? -radius : radius;
    const float sign_b = (quarter & 2) != 0 ? -radius : radius;
    out[2 * k] = sign_a * a;
    out[2 * k + 1] = sign_b * b;
  }
}

// Writes standard normal numbers truncated at 2: sqrt(2) erfinv(x) for x uniform in
// (-erf(sqrt(2)), erf(sqrt(2))). In this range, one polynomial in -log(1 - x^2) suffices.
void trunc_normal_of(const uint32_t* words, size_t n, float* out) noexcept {
  constexpr float kErf = 0.95449973610364158559F;
  for (size_t k = 0; k < n; ++k) {
    const float x = (2.0F * to_unit(words[k]) - (1.0F - 0x1p-24F)) * kErf;
    const float w = -log_of((1.0F - x) * (1.0F + x)) - 2.5F;
    float p = 2.81022636e-08F;
    p = p * w + 3.43273939e-07F;
    p = p * w - 3.5233877e-06F;
    p = p * w - 4.39150654e-06F;
    p = p * w + 0.00021858087F;
    p = p * w - 0.00125372503F;
    p = p * w - 0.00417768164F;
    p = p * w + 0.246640727F;
    p = p * w + 1.50140941F;
    const float z = 1.41421356237309504880F * (p * x);
    out[k] = z > 2.0F ? 2.0F : z < -2.0F ? -2.0F : z;  // rounding may exceed 2 slightly
  }
}

void uniform_of(const uint32_t* words, size_t n, float* out) noexcept {
  for (size_t k = 0; k < n; ++k) {
    out[k] = to_unit(words[k]);
  }
}

}  // namespace

void fill_row_values(const RowInit& init,
                     uint64_t seed,
                     int64_t id,
                     std::span<float> out) noexcept {
  const auto a = static_cast<float>(init.a);
  const auto b = static_cast<float>(init.b);
  const bool is_random = init.kind == TENON_INIT_NORMAL || init.kind == TENON_INIT_UNIFORM ||
                         init.kind == TENON_INIT_TRUNC_NORMAL;
  if (!is_random) {
    std::ranges::fill(out,
                      init.kind == TENON_INIT_ONES       ? 1.0F
                      : init.kind == TENON_INIT_CONSTANT ? a
                                                         : 0.0F);
    return;
  }
  const bool is_uniform = init.kind == TENON_INIT_UNIFORM;
  const float factor = is_uniform ? static_cast<float>(init.b - init.a) : b;
  // Rounding must not reach b if the interval excludes it.
  const float highest =
      is_uniform && a < b ? std::nextafter(b, a) : std::numeric_limits<float>::infinity();
  const uint64_t stream = mix_seeds(seed, static_cast<uint64_t>(id));
  uint32_t words[kAtOnce] = {};
  float values[kAtOnce];
  for (size_t first = 0; first < out.size(); first += kAtOnce) {
    const size_t n = std::min(kAtOnce, out.size() - first);
    const size_t rounded = (n + 7) / 8 * 8;  // whole vectors; elements after n are discarded
    fill_words(stream, first, rounded, words);
    if (is_uniform) {
      uniform_of(words, rounded, values);
    } else if (init.kind == TENON_INIT_NORMAL) {
      normal_of(words, rounded, values);
    } else {
      trunc_normal_of(words, rounded, values);
    }
    for (size_t k = 0; k < n; ++k) {
      const float x = a + factor * values[k];
      out[first + k] = x < highest ? x : highest;
    }
  }
}

}  // namespace tenon
