// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/philox.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace tenon {
namespace {

using PhiloxWords = std::array<uint32_t, 4>;

// Returns two numbers of a stream: 2 * block and 2 * block + 1.
std::array<uint64_t, 2> bits_of_block(uint64_t seed, uint64_t stream, uint64_t block) noexcept {
  const PhiloxWords words =
      philox4x32({static_cast<uint32_t>(block),
                  static_cast<uint32_t>(block >> 32),
                  static_cast<uint32_t>(stream),
                  static_cast<uint32_t>(stream >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {words[0] | uint64_t{words[1]} << 32, words[2] | uint64_t{words[3]} << 32};
}

// Convert the upper 53 bits to [0, 1) and (0, 1].
double to_unit(uint64_t bits) noexcept {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}
double to_positive_unit(uint64_t bits) noexcept {
  return static_cast<double>((bits >> 11) + 1) * 0x1p-53;
}

// Calls use(k, bits of number first + k) for k in [0, n), with one Philox block for two numbers.
template <class Use>
void for_each_number(uint64_t seed, uint64_t stream, uint64_t first, size_t n, Use use) noexcept {
  size_t k = 0;
  if (n > 0 && first % 2 == 1) {
    use(size_t{0}, bits_of_block(seed, stream, first / 2)[1]);
    k = 1;
  }
  for (; k + 1 < n; k += 2) {
    const auto pair = bits_of_block(seed, stream, (first + k) / 2);
    use(k, pair[0]);
    use(k + 1, pair[1]);
  }
  if (k < n) {
    use(k, bits_of_block(seed, stream, (first + k) / 2)[0]);
  }
}

template <size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) noexcept {
  double sum = 0.0;
  for (size_t i = N; i-- > 0;) {
    sum = sum * x + coefficients[i];
  }
  return sum;
}

}  // namespace

std::array<uint32_t, 4> philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key) noexcept {
  PhiloxWords x = counter;
  uint32_t k0 = key[0];
  uint32_t k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ k0,
         static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ k1,
         static_cast<uint32_t>(product0)};
    k0 += 0x9E3779B9;  // the golden ratio
    k1 += 0xBB67AE85;  // the square root of 3, minus 1
  }
  return x;
}

uint64_t stream_of(std::string_view name) noexcept {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return mix_bits(hash);
}

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) noexcept {
  return bits_of_block(seed, stream, index / 2)[index % 2];
}

void fill_uniform(uint64_t seed, uint64_t stream, uint64_t first, std::span<double> out) noexcept {
  for_each_number(
      seed, stream, first, out.size(), [&](size_t k, uint64_t bits) { out[k] = to_unit(bits); });
}

void fill_normal(uint64_t seed, uint64_t stream, uint64_t first, std::span<double> out) noexcept {
  for (size_t k = 0; k < out.size(); ++k) {
    const auto pair = bits_of_block(seed, stream, first + k);
    const double radius = std::sqrt(-2.0 * std::log(to_positive_unit(pair[0])));
    out[k] = radius * std::cos(2.0 * std::numbers::pi * to_unit(pair[1]));
  }
}

void fill_trunc_normal(uint64_t seed,
                       uint64_t stream,
                       uint64_t first,
                       std::span<double> out) noexcept {
  constexpr double kBelow = 0.022750131948179207;  // the distribution function at -2
  for_each_number(seed, stream, first, out.size(), [&](size_t k, uint64_t bits) {
    const double p = kBelow + to_unit(bits) * (1.0 - 2.0 * kBelow);
    out[k] = std::clamp(inverse_normal_cdf(p), -2.0, 2.0);  // rounding may exceed the bounds
  });
}

double inverse_normal_cdf(double p) noexcept {
  // Coefficients of PPND16: a ratio of polynomials for the middle, and two for the tails.
  static constexpr std::array kA = {3.3871328727963666080e0,
                                    1.3314166789178437745e+2,
                                    1.9715909503065514427e+3,
                                    1.3731693765509461125e+4,
                                    4.5921953931549871457e+4,
                                    6.7265770927008700853e+4,
                                    3.3430575583588128105e+4,
                                    2.5090809287301226727e+3};
  static constexpr std::array kB = {1.0,
                                    4.2313330701600911252e+1,
                                    6.8718700749205790830e+2,
                                    5.3941960214247511077e+3,
                                    2.1213794301586595867e+4,
                                    3.9307895800092710610e+4,
                                    2.8729085735721942674e+4,
                                    5.2264952788528545610e+3};
  static constexpr std::array kC = {1.42343711074968357734e0,
                                    4.63033784615654529590e0,
                                    5.76949722146069140550e0,
                                    3.64784832476320460504e0,
                                    1.27045825245236838258e0,
                                    2.41780725177450611770e-1,
                                    2.27238449892691845833e-2,
                                    7.74545014278341407640e-4};
  static constexpr std::array kD = {1.0,
                                    2.05319162663775882187e0,
                                    1.67638483018380384940e0,
                                    6.89767334985100004550e-1,
                                    1.48103976427480074590e-1,
                                    1.51986665636164571966e-2,
                                    5.47593808499534494600e-4,
                                    1.05075007164441684324e-9};
  static constexpr std::array kE = {6.65790464350110377720e0,
                                    5.46378491116411436990e0,
                                    1.78482653991729133580e0,
                                    2.96560571828504891230e-1,
                                    2.65321895265761230930e-2,
                                    1.24266094738807843860e-3,
                                    2.71155556874348757815e-5,
                                    2.01033439929228813265e-7};
  static constexpr std::array kF = {1.0,
                                    5.99832206555887937690e-1,
                                    1.36929880922735805310e-1,
                                    1.48753612908506148525e-2,
                                    7.86869131145613259100e-4,
                                    1.84631831751005468180e-5,
                                    1.42151175831644588870e-7,
                                    2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  const double r = std::sqrt(-std::log(q < 0.0 ? p : 1.0 - p));
  const double x = r <= 5.0 ? polynomial(kC, r - 1.6) / polynomial(kD, r - 1.6)
                            : polynomial(kE, r - 5.0) / polynomial(kF, r - 5.0);
  return std::copysign(x, q);
}

uint64_t permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i) noexcept {
  // The smallest domain 4^half_bits that holds n, but at least 64: with halves of two bits the
  // round functions generate few of the permutations, for any number of rounds.
  const int bits = n > 1 ? static_cast<int>(std::bit_width(n - 1)) : 1;
  const int half_bits = std::max(3, (bits + 1) / 2);
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  const uint64_t key = seed ^ mix_bits(n);

  // The loop ends: the network is a bijection, so it returns to i < n at the latest.
  uint64_t x = i;
  do {
    uint64_t left = x >> half_bits;
    uint64_t right = x & mask;
    // Four rounds are proven sufficient for large domains; small ones need more to be uniform.
    for (uint32_t round = 0; round < 8; ++round) {
      const PhiloxWords words =
          philox4x32({static_cast<uint32_t>(right),
                      round,
                      static_cast<uint32_t>(stream),
                      static_cast<uint32_t>(stream >> 32)},
                     {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
      const uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    x = left << half_bits | right;
  } while (x >= n);
  return x;
}

}  // namespace tenon
