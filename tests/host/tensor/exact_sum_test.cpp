// SPDX-License-Identifier: Apache-2.0
//
// Against sums of integers of any length: each fp64 value is an integer times 2^-1074.
#include "host/tensor/exact_sum.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Integer = boost::multiprecision::cpp_int;
using Limits = std::numeric_limits<double>;

// Returns a finite value in units of 2^-1074.
Integer units_of(double value) {
  if (value == 0) {
    return 0;
  }
  const int exponent = std::max(std::ilogb(value), -1022) - 52;
  return Integer(static_cast<uint64_t>(std::ldexp(value, -exponent))) << (exponent + 1074);
}

// Rounds to nearest, ties to even.
double rounded(const Integer& units) {
  const unsigned bits = units == 0 ? 0 : msb(units) + 1;
  const unsigned dropped = bits > 53 ? bits - 53 : 0;
  Integer mantissa = units >> dropped;
  const Integer twice = (units - (mantissa << dropped)) * 2;
  const Integer one = Integer(1) << dropped;
  if (dropped > 0 && (twice > one || (twice == one && mantissa % 2 != 0))) {
    ++mantissa;
  }
  return std::ldexp(static_cast<double>(static_cast<uint64_t>(mantissa)),
                    static_cast<int>(dropped) - 1074);
}

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  sum.add(values);
  return sum.value();
}

double true_sum(const std::vector<double>& values) {
  Integer units = 0;
  for (const double value : values) {
    units += units_of(value);
  }
  return rounded(units);
}

// Draws values with exponents in a range, so that sums are near each other, or far apart.
std::vector<double> drawn(std::mt19937_64& random, size_t num, int lowest, int highest) {
  std::vector<double> values;
  for (size_t i = 0; i < num; ++i) {
    const int exponent = lowest + static_cast<int>(random() % uint64_t(highest - lowest + 1));
    // Few bits make ties frequent.
    const uint64_t mantissa = random() >> (11 + random() % 53);
    values.push_back(std::ldexp(static_cast<double>(mantissa), exponent));
  }
  return values;
}

}  // namespace

TEST_CASE("an exact sum is the rounded sum of integers, over the range of fp64", "[tensor]") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const int lowest = static_cast<int>(random() % 1900) - 1074;
    const int width = static_cast<int>(random() % 80);
    const auto values = drawn(random, 1 + random() % 20, lowest, std::min(lowest + width, 960));
    INFO(round);
    REQUIRE(sum_of(values) == true_sum(values));
  }
}

TEST_CASE("an exact sum rounds ties to even, and sees all that lies below", "[tensor]") {
  const double half = std::ldexp(1, -53);  // of a unit in the last place of 1
  CHECK(sum_of({1, half}) == 1);
  CHECK(sum_of({1, half, Limits::denorm_min()}) == 1 + Limits::epsilon());
  CHECK(sum_of({1 + Limits::epsilon(), half}) == 1 + 2 * Limits::epsilon());
  CHECK(sum_of({1, half / 2, half / 2}) == 1);
  CHECK(sum_of({2 - Limits::epsilon(), half * 2}) == 2);  // the carry reaches the exponent
}

TEST_CASE("an exact sum has subnormal values, none, and sums that exceed fp64", "[tensor]") {
  CHECK(ExactSum().value() == 0);
  CHECK(sum_of({0.0, -0.0}) == 0);
  CHECK(sum_of({Limits::denorm_min(), Limits::denorm_min()}) == 2 * Limits::denorm_min());
  CHECK(sum_of({Limits::min(), Limits::denorm_min()}) == Limits::min() + Limits::denorm_min());
  CHECK(sum_of({Limits::max()}) == Limits::max());
  CHECK(sum_of({Limits::max(), Limits::max()}) == Limits::infinity());
  CHECK(sum_of({Limits::max(), 1}) == Limits::max());
  // A value at the lowest bit of a word, at the highest one, and across three words.
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    const double value = std::ldexp(1, exponent);
    REQUIRE(sum_of({value}) == value);
    const double long_value = std::ldexp(std::nextafter(2.0, 0.0), exponent);
    REQUIRE(sum_of({long_value}) == long_value);
  }
}

TEST_CASE("an exact sum counts infinities and NaNs", "[tensor]") {
  CHECK(sum_of({1, Limits::infinity()}) == Limits::infinity());
  CHECK(std::isnan(sum_of({1, Limits::quiet_NaN()})));
  CHECK(std::isnan(sum_of({1, Limits::infinity(), -Limits::quiet_NaN()})));
  ExactSum sum;
  sum.add(ExactSum());
  ExactSum other;
  other.add(Limits::infinity());
  sum.add(other);
  CHECK(sum.value() == Limits::infinity());
}

TEST_CASE("an exact sum has the same bits in any order and over any ranks", "[tensor]") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    auto values = drawn(random, 200, -200, 40);
    const double want = true_sum(values);
    REQUIRE(sum_of(values) == want);
    std::shuffle(values.begin(), values.end(), random);
    // Sums of pieces are added, or their words are, as ranks add them.
    const size_t num_pieces = 1 + random() % 7;
    std::vector<ExactSum> pieces(num_pieces);
    for (const double value : values) {
      pieces[random() % num_pieces].add(value);
    }
    ExactSum total;
    for (const ExactSum& piece : pieces) {
      total.add(piece);
    }
    REQUIRE(total.value() == want);
    ExactSum shared;
    const auto words = shared.words();
    for (ExactSum& piece : pieces) {
      const auto own = piece.words();
      std::ranges::transform(words, own, words.begin(), std::plus<>());
    }
    REQUIRE(shared.value() == want);
    shared.add(total);
    shared.add(shared);
    REQUIRE(shared.value() == 4 * want);
  }
}

TEST_CASE("words do not overflow, however many values and ranks there are", "[tensor]") {
  // Doubling 80 times stands for 2^80 values whose digits are all ones.
  const double value = std::ldexp(std::nextafter(2.0, 0.0), 11);
  ExactSum sum;
  sum.add(value);
  Integer units = units_of(value);
  for (int i = 0; i < 80; ++i) {
    sum.add(sum);
    units *= 2;
  }
  CHECK(sum.value() == rounded(units));
  // 2^30 ranks with the largest digits.
  for (int64_t& word : sum.words()) {
    word *= int64_t{1} << 30;
  }
  sum.add(value);
  CHECK(sum.value() == rounded((units << 30) + units_of(value)));
  for (const int64_t word : sum.words().first<kExactDigits>()) {
    CHECK(word >= 0);
    CHECK(word < int64_t{1} << 32);
  }
}

}  // namespace tenon
