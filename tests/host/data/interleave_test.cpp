// SPDX-License-Identifier: Apache-2.0

#include "host/data/interleave.hpp"

#include "host/tensor/philox.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::vector<std::size_t> first_sources(const Interleave& turns, int64_t n) {
  std::vector<std::size_t> sources;
  for (int64_t k = 0; k < n; ++k) {
    sources.push_back(turns.at(k).source);
  }
  return sources;
}

// Weights over many orders of magnitude, some of them zero, one at least not.
std::vector<double> random_weights(std::mt19937_64& random) {
  const auto n = std::uniform_int_distribution<int>(1, 40)(random);
  std::vector<double> weights;
  for (int i = 0; i < n; ++i) {
    const double weight = std::exp(std::uniform_real_distribution<double>(-6, 6)(random));
    weights.push_back(i > 0 && random() % 8 == 0 ? 0.0 : weight);
  }
  return weights;
}

// How far the counts of the first k turns are from the weights' shares, at most.
double worst_error(const std::vector<int64_t>& counts, const std::vector<double>& weights) {
  const int64_t k = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double worst = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double share = static_cast<double>(k) * weights[i] / sum;
    worst = std::max(worst, std::abs(static_cast<double>(counts[i]) - share));
  }
  return worst;
}

}  // namespace

TEST_CASE("turns, ordinals and counts are those of one sequence", "[data][mix]") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    const std::vector<double> weights = random_weights(random);
    const Interleave turns(random(), weights);
    std::vector<int64_t> counted(weights.size(), 0);
    for (int64_t k = 0; k < 500; ++k) {
      REQUIRE(turns.counts(k) == counted);
      const Interleave::Turn turn = turns.at(k);
      REQUIRE(turn.source < weights.size());
      REQUIRE(weights[turn.source] > 0);
      REQUIRE(turn.ordinal == counted[turn.source]);
      ++counted[turn.source];
    }
  }
}

TEST_CASE("each prefix holds each source in its share, to less than four turns", "[data][mix]") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> weights = random_weights(random);
    const Interleave turns(random(), weights);
    INFO("round " << round << ", " << weights.size() << " sources");
    const auto num_used = std::ranges::count_if(weights, [](double weight) { return weight > 0; });
    const double bound = num_used <= 2 ? 1.0 + 1e-9 : 4.0;
    for (int64_t k = 0; k < 300; ++k) {
      REQUIRE(worst_error(turns.counts(k), weights) < bound);
    }
    for (int far = 0; far < 50; ++far) {
      const auto k = static_cast<int64_t>(random() >> 24);  // below 2^40: doubles are exact enough
      REQUIRE(worst_error(turns.counts(k), weights) < bound);
    }
  }
}

TEST_CASE("two sources are one arithmetic sequence with a phase", "[data][mix]") {
  // By hand: of n turns floor(3/4 n + phase) go to the heavier one, whatever the phase.
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const std::vector<double> weights = {1.0, 3.0};
    const Interleave turns(seed, weights);
    const std::vector<std::size_t> sources = first_sources(turns, 16);
    for (std::size_t k = 0; k + 4 <= sources.size(); ++k) {
      CHECK(std::count(sources.begin() + static_cast<int64_t>(k),
                       sources.begin() + static_cast<int64_t>(k) + 4,
                       std::size_t{1}) == 3);
    }
  }
}

TEST_CASE("over the seeds each turn falls to a source as often as its weight says", "[data][mix]") {
  const std::vector<double> weights = {0.5, 0.3, 0.15, 0.05};
  constexpr int kSeeds = 4000;
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{17}, int64_t{1} << 50}) {
    std::vector<double> found(weights.size(), 0);
    for (int seed = 0; seed < kSeeds; ++seed) {
      found[Interleave(static_cast<uint64_t>(seed), weights).at(k).source] += 1.0 / kSeeds;
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      INFO("turn " << k << ", source " << i);
      // Five standard deviations.
      CHECK(std::abs(found[i] - weights[i]) <
            5 * std::sqrt(weights[i] * (1 - weights[i]) / kSeeds));
    }
  }
}

TEST_CASE("turns depend on the seed and on the ratios of the weights alone", "[data][mix]") {
  const std::vector<double> weights = {0.75, 0.125, 0.125};
  const std::vector<double> scaled = {6e300, 1e300, 1e300};
  const auto turns = [](uint64_t seed, const std::vector<double>& of) {
    return first_sources(Interleave(seed, of), 200);
  };
  CHECK(turns(1, weights) == turns(1, scaled));
  CHECK(turns(1, weights) == turns(1, weights));
  std::set<std::vector<std::size_t>> different;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    different.insert(turns(seed, weights));
  }
  CHECK(different.size() > 4);
}

TEST_CASE("the turns of a seed never change", "[data][mix]") {
  const std::vector<double> weights = {0.6, 0.3, 0.1};
  CHECK(first_sources(Interleave(7, weights), 20) ==
        std::vector<std::size_t>{0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 0, 1, 0, 0, 2, 0, 1, 0, 0, 1});
  CHECK(Interleave(7, weights).counts(1'000'000'000'000) ==
        std::vector<int64_t>{600'000'000'000, 300'000'000'000, 100'000'000'000});
}

TEST_CASE("weights as far apart as numbers can be are counted without overflow", "[data][mix]") {
  const std::vector<double> weights = {1e308, 1e308, 1e-308, 0};
  const Interleave turns(3, weights);
  const int64_t far = int64_t{1} << 62;
  const std::vector<int64_t> counts = turns.counts(far);
  CHECK(counts[0] + counts[1] + counts[2] == far);
  CHECK(counts[2] <= 1);
  CHECK(counts[3] == 0);
  CHECK(turns.at(far).ordinal >= 0);
}

}  // namespace tenon
