// SPDX-License-Identifier: Apache-2.0

#include "host/data/mix_order.hpp"

#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Sequence = std::vector<std::pair<std::size_t, int64_t>>;  // source and position

struct Mix {
  uint64_t seed = 0;
  std::vector<double> weights;
  std::vector<int64_t> sizes;

  MixOrder order(WhenOneEnds when) const { return {seed, weights, sizes, when}; }
};

Mix random_mix(std::mt19937_64& random) {
  Mix mix{.seed = random(), .weights = {}, .sizes = {}};
  const auto n = std::uniform_int_distribution<int>(1, 6)(random);
  for (int i = 0; i < n; ++i) {
    mix.weights.push_back(i > 0 && random() % 6 == 0
                              ? 0.0
                              : std::exp(std::uniform_real_distribution<double>(-2, 2)(random)));
    mix.sizes.push_back(std::uniform_int_distribution<int>(1, 40)(random));
  }
  return mix;
}

// The epoch by taking samples from the sources one after the other, as a reader would.
Sequence walk(const Mix& mix, WhenOneEnds when) {
  std::vector<int64_t> taken(mix.sizes.size(), 0);
  std::vector<double> weights = mix.weights;
  Sequence all;
  uint64_t number = 0;
  Interleave turns(mix.seed, weights);
  for (int64_t k = 0;; ++k) {
    const auto is_read = [&](std::size_t i) {
      return mix.weights[i] == 0 || taken[i] >= mix.sizes[i];
    };
    bool all_read = true;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      all_read = all_read && is_read(i);
    }
    if (all_read && when != WhenOneEnds::kStop) {
      return all;
    }
    std::size_t source = turns.at(k).source;
    if (taken[source] >= mix.sizes[source]) {
      if (when == WhenOneEnds::kStop) {
        return all;
      }
      if (when == WhenOneEnds::kContinue) {
        for (std::size_t i = 0; i < taken.size(); ++i) {
          weights[i] = is_read(i) ? 0 : weights[i];
        }
        turns = Interleave(mix_seeds(mix.seed, ++number), weights);
        k = 0;
        source = turns.at(k).source;
      }
    }
    all.emplace_back(source, taken[source]++ % mix.sizes[source]);
  }
}

Sequence epoch_of(const MixOrder& order, uint64_t epoch) {
  Sequence all;
  for (int64_t k = 0; k < order.num_samples(); ++k) {
    const MixOrder::Sample sample = order.at(epoch, k);
    all.emplace_back(sample.source, sample.position);
  }
  return all;
}

}  // namespace

TEST_CASE("a mix is what one gets by taking samples one after the other", "[data][mix]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const Mix mix = random_mix(random);
    for (const WhenOneEnds when :
         {WhenOneEnds::kRepeat, WhenOneEnds::kStop, WhenOneEnds::kContinue}) {
      INFO("round " << round << ", " << word_of(when));
      const MixOrder order = mix.order(when);
      const Sequence want = walk(mix, when);
      REQUIRE(order.num_samples() == static_cast<int64_t>(want.size()));
      REQUIRE(epoch_of(order, 0) == want);
      if (when != WhenOneEnds::kRepeat) {
        REQUIRE(epoch_of(order, 3) == want);
        REQUIRE(order.at(3, 0).pass == 3);
      }
    }
  }
}

TEST_CASE("counts of a mix are those of its samples", "[data][mix]") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 50; ++round) {
    const Mix mix = random_mix(random);
    for (const WhenOneEnds when :
         {WhenOneEnds::kRepeat, WhenOneEnds::kStop, WhenOneEnds::kContinue}) {
      const MixOrder order = mix.order(when);
      for (const uint64_t epoch : {0, 2}) {
        std::vector<int64_t> counted(mix.sizes.size(), 0);
        for (int64_t k = 0; k <= order.num_samples(); ++k) {
          REQUIRE(order.counts(epoch, k) == counted);
          if (k < order.num_samples()) {
            ++counted[order.at(epoch, k).source];
          }
        }
      }
    }
  }
}

TEST_CASE("sources that repeat are read whole, pass after pass, over the ends of epochs",
          "[data][mix]") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    const Mix mix = random_mix(random);
    const MixOrder order = mix.order(WhenOneEnds::kRepeat);
    std::vector<int64_t> taken(mix.sizes.size(), 0);
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      for (int64_t k = 0; k < order.num_samples(); ++k) {
        const MixOrder::Sample sample = order.at(epoch, k);
        const int64_t size = mix.sizes[sample.source];
        REQUIRE(sample.pass == static_cast<uint64_t>(taken[sample.source] / size));
        REQUIRE(sample.position == taken[sample.source] % size);
        ++taken[sample.source];
      }
    }
    // One sequence: the shares hold over all epochs together.
    const double sum = std::accumulate(mix.weights.begin(), mix.weights.end(), 0.0);
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const double share = 4 * static_cast<double>(order.num_samples()) * mix.weights[i] / sum;
      CHECK(std::abs(static_cast<double>(taken[i]) - share) < 4);
    }
  }
}

TEST_CASE("to continue gives each sample of each source once", "[data][mix]") {
  const MixOrder order(9, {5, 1, 0, 1}, {10, 300, 7, 20}, WhenOneEnds::kContinue);
  CHECK(order.num_samples() == 330);
  const Sequence all = epoch_of(order, 0);
  CHECK(std::set<std::pair<std::size_t, int64_t>>(all.begin(), all.end()).size() == 330);
}

TEST_CASE("a mix of one source is its own order", "[data][mix]") {
  for (const WhenOneEnds when :
       {WhenOneEnds::kRepeat, WhenOneEnds::kStop, WhenOneEnds::kContinue}) {
    const MixOrder order(1, {0.3}, {17}, when);
    CHECK(order.num_samples() == 17);
    for (int64_t k = 0; k < 17; ++k) {
      const MixOrder::Sample sample = order.at(5, k);
      CHECK(sample.source == 0);
      CHECK(sample.pass == 5);
      CHECK(sample.position == k);
    }
  }
}

TEST_CASE("any position of a huge mix is found at once", "[data][mix]") {
  const int64_t huge = int64_t{1} << 60;
  const MixOrder order(1, {0.5, 0.25, 0.25}, {huge, huge / 2, huge / 2}, WhenOneEnds::kContinue);
  CHECK(order.num_samples() == 2 * huge);
  CHECK(order.at(0, 2 * huge - 1).position >= huge / 2 - 1);
}

TEST_CASE("an epoch of more samples than can be counted is refused", "[data][mix]") {
  CHECK_THROWS_WITH(MixOrder(1, {1.0, 1e-30}, {10, 10}, WhenOneEnds::kRepeat),
                    contains_text("[data.bad_mix]"));
  const MixOrder order(1, {1.0, 1.0}, {10, 10}, WhenOneEnds::kRepeat);
  CHECK_THROWS_WITH(order.at(uint64_t{1} << 60, 0), contains_text("[data.bad_mix]"));
}

}  // namespace tenon
