// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/philox.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TEST_CASE("Philox gives the published test vectors", "[tensor]") {
  // Source: kat_vectors of the Random123 library, "philox 4x32 10".
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

// The golden values below come from a second implementation, in another language.

TEST_CASE("streams and mixed seeds keep their values for good", "[tensor]") {
  CHECK(stream_of("") == 0xf52a15e9a9b5e89b);
  CHECK(stream_of("data") == 0xc0eca8d622168c4e);
  CHECK(stream_of("model.layers.0.weight") == 0x30de947b54d345cd);
  CHECK(mix_bits(1) == 0x5692161d100b05e5);
  CHECK(mix_seeds(1, 2) == 0x081a5c1377856b73);
  CHECK(mix_seeds(2, 1) == 0xf2826f98653e9e57);
}

TEST_CASE("random bits keep their values for good", "[tensor]") {
  const uint64_t stream = stream_of("data");
  CHECK(random_bits(42, stream, 0) == 0xb48cbaa9082fe302);
  CHECK(random_bits(42, stream, 1) == 0xda94953baf733e28);
  CHECK(random_bits(42, stream, 2) == 0x0b4248ab08407243);
  CHECK(random_bits(42, stream, 3) == 0xc2bdc28e607b8b1b);
  CHECK(random_bits(42, stream, (uint64_t{1} << 40) + 1) == 0xa88d99b123d08350);
}

TEST_CASE("uniform and normal numbers keep their values for good", "[tensor]") {
  const uint64_t stream = stream_of("data");
  std::array<double, 4> x;
  fill_uniform(42, stream, 0, x);
  CHECK(x ==
        std::array{0.705272356288503, 0.8538296957699004, 0.04398016143409378, 0.7607080075836007});

  // The last bit is the C library's, which may differ from machine to machine.
  const auto close = [&](const std::array<double, 4>& expected) {
    for (size_t i = 0; i < 4; ++i) {
      CHECK(x[i] == Approx(expected[i]).epsilon(1e-14));
    }
  };
  fill_normal(42, stream, 0, x);
  close({0.5073181397829005, 0.16804767372182403, -1.664113627690387, 1.809813625335033});
  fill_trunc_normal(42, stream, 0, x);
  close({0.5127371771330858, 0.9851725990276834, -1.516241219249603, 0.6708618351272885});
}

TEST_CASE("a number depends on its index alone, not on how a fill is cut", "[tensor]") {
  using Fill = void (*)(uint64_t, uint64_t, uint64_t, std::span<double>) noexcept;
  for (const Fill fill : {Fill{fill_uniform}, Fill{fill_normal}, Fill{fill_trunc_normal}}) {
    std::vector<double> whole(101);
    fill(5, 6, 0, whole);
    for (const size_t cut : {0, 1, 2, 7, 50, 99, 100, 101}) {
      std::vector<double> parts(whole.size());
      fill(5, 6, 0, std::span(parts).first(cut));
      fill(5, 6, cut, std::span(parts).subspan(cut));
      CHECK(parts == whole);
    }
  }
}

TEST_CASE("uniform and normal numbers have the moments of their distributions", "[tensor]") {
  std::vector<double> x(200'000);
  const auto moment = [&](double power) {
    double sum = 0.0;
    for (const double value : x) {
      sum += std::pow(value, power);
    }
    return sum / static_cast<double>(x.size());
  };
  // Margins are four standard errors, or a little more.
  fill_uniform(1, 2, 0, x);
  CHECK(*std::ranges::min_element(x) >= 0.0);
  CHECK(*std::ranges::max_element(x) < 1.0);
  CHECK(moment(1) == Approx(0.5).margin(0.003));
  CHECK(moment(2) == Approx(1.0 / 3.0).margin(0.003));

  fill_normal(1, 2, 0, x);
  CHECK(moment(1) == Approx(0.0).margin(0.01));
  CHECK(moment(2) == Approx(1.0).margin(0.015));
  CHECK(moment(3) == Approx(0.0).margin(0.04));
  CHECK(moment(4) == Approx(3.0).margin(0.1));

  fill_trunc_normal(1, 2, 0, x);
  CHECK(*std::ranges::min_element(x) >= -2.0);
  CHECK(*std::ranges::max_element(x) <= 2.0);
  CHECK(moment(1) == Approx(0.0).margin(0.01));
  CHECK(moment(2) == Approx(0.7737413).margin(0.01));  // 1 - 4 phi(2) / (Phi(2) - Phi(-2))
}

TEST_CASE("streams and seeds give unrelated numbers", "[tensor]") {
  std::vector<double> a(50'000);
  std::vector<double> b(a.size());
  const auto correlation = [&] {
    double sum = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
      sum += a[i] * b[i];
    }
    return sum / static_cast<double>(a.size());
  };
  fill_normal(1, 2, 0, a);
  fill_normal(1, 3, 0, b);
  CHECK(std::abs(correlation()) < 0.02);
  fill_normal(2, 2, 0, b);
  CHECK(std::abs(correlation()) < 0.02);
  fill_normal(1, 2, 1, b);
  CHECK(std::abs(correlation()) < 0.02);
}

TEST_CASE("the inverse of the normal distribution is one", "[tensor]") {
  for (const double p : {1e-300, 1e-12, 1e-5, 0.01, 0.07, 0.074, 0.076, 0.3, 0.5, 0.8, 0.999}) {
    const double x = inverse_normal_cdf(p);
    CHECK(0.5 * std::erfc(-x / std::sqrt(2.0)) == Approx(p).epsilon(1e-12));
  }
  CHECK(inverse_normal_cdf(0.5) == 0.0);
  CHECK(inverse_normal_cdf(0.001) == Approx(-3.090232306167813).epsilon(1e-15));
  CHECK(inverse_normal_cdf(1e-300) == Approx(-37.0470962993612).epsilon(1e-14));
}

TEST_CASE("a permutation is one, whatever its size", "[tensor]") {
  std::vector<char> seen;
  bool all = true;
  for (uint64_t n = 1; n <= 2000; ++n) {
    seen.assign(n, 0);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t x = permute(n, 3, n, i);
      all = all && x < n && !std::exchange(seen[x], 1);
    }
  }
  CHECK(all);
  for (const uint64_t n : {65'535u, 65'536u, 65'537u, 200'003u}) {
    seen.assign(n, 0);
    for (uint64_t i = 0; i < n; ++i) {
      seen[permute(9, 3, n, i)] = 1;
    }
    CHECK(std::ranges::count(seen, 1) == static_cast<std::ptrdiff_t>(n));
  }
}

TEST_CASE("permutations keep their values for good", "[tensor]") {
  const auto first = [](uint64_t seed, uint64_t stream, uint64_t n, uint64_t count) {
    std::vector<uint64_t> x;
    for (uint64_t i = 0; i < count; ++i) {
      x.push_back(permute(seed, stream, n, i));
    }
    return x;
  };
  CHECK(first(1, 2, 10, 10) == std::vector<uint64_t>{3, 9, 7, 4, 2, 8, 0, 6, 1, 5});
  CHECK(first(7, 0, 5, 5) == std::vector<uint64_t>{1, 0, 2, 4, 3});
  CHECK(first(1, 2, 1000, 3) == std::vector<uint64_t>{564, 77, 762});
  CHECK(permute(1, 2, 1000, 999) == 267);
  CHECK(permute(1, 2, 1'000'000'000'000, 0) == 382'035'440'318);
  CHECK(permute(1, 2, 1'000'000'000'000, 999'999'999'999) == 537'106'581'858);
  CHECK(permute(3, 4, UINT64_MAX, 0) == 12'280'851'209'560'711'351u);
  CHECK(permute(3, 4, UINT64_MAX, UINT64_MAX - 1) == 7'819'401'260'576'398'383u);
}

TEST_CASE("all orders of a few elements are equally likely", "[tensor]") {
  // A chi-squared test, at about one false alarm in 100,000 draws of other seeds.
  const std::map<uint64_t, double> limits = {{2, 20.0}, {3, 31.0}, {4, 62.0}, {5, 192.0}};
  for (const auto& [n, limit] : limits) {
    constexpr int kDraws = 12'000;
    std::map<std::vector<uint64_t>, int> counts;
    for (uint64_t seed = 0; seed < kDraws; ++seed) {
      std::vector<uint64_t> order(n);
      for (uint64_t i = 0; i < n; ++i) {
        order[i] = permute(seed, 7, n, i);
      }
      ++counts[order];
    }
    const double expected = kDraws / std::tgamma(static_cast<double>(n) + 1.0);
    CHECK(static_cast<double>(counts.size()) * expected == Approx(kDraws));
    double chi_squared = 0.0;
    for (const auto& [order, count] : counts) {
      chi_squared += (count - expected) * (count - expected) / expected;
    }
    CHECK(chi_squared < limit);
  }
}

TEST_CASE("a large permutation leaves little of the order it had", "[tensor]") {
  constexpr uint64_t kN = 100'000;
  int fixed = 0;
  int neighbours = 0;
  int upper_half = 0;
  for (uint64_t i = 0; i + 1 < kN; ++i) {
    const uint64_t x = permute(11, 12, kN, i);
    fixed += x == i ? 1 : 0;
    neighbours += permute(11, 12, kN, i + 1) == x + 1 ? 1 : 0;
    upper_half += i < kN / 2 && x >= kN / 2 ? 1 : 0;
  }
  CHECK(fixed < 10);                                // one is expected
  CHECK(neighbours < 10);                           // one is expected
  CHECK(upper_half == Approx(kN / 4).margin(400));  // standard deviation 79
}

TEST_CASE("permutations of other seeds, streams and sizes are others", "[tensor]") {
  const auto common = [](uint64_t seed, uint64_t stream, uint64_t n) {
    int equal = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      equal += permute(1, 1, 1000, i) == permute(seed, stream, n, i) ? 1 : 0;
    }
    return equal;
  };
  CHECK(common(2, 1, 1000) < 10);
  CHECK(common(1, 2, 1000) < 10);
  CHECK(common(1, 1, 1001) < 10);
}

}  // namespace
}  // namespace tenon
