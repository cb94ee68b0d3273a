// SPDX-License-Identifier: Apache-2.0

#include "host/data/order.hpp"

#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Shuffle = SampleOrder::Shuffle;

std::vector<int64_t> whole(const SampleOrder& order) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < order.size(); ++i) {
    all.push_back(order.index(i));
  }
  return all;
}

TEST_CASE("a shuffled order holds each sample once", "[data]") {
  for (const int64_t n : {1, 2, 3, 16, 17, 1000}) {
    const std::vector<int64_t> all =
        whole(SampleOrder({.seed = 1, .epoch = 2, .window_id = 3}, n, Shuffle::kYes));
    CHECK(std::set<int64_t>(all.begin(), all.end()).size() == static_cast<size_t>(n));
    for (const int64_t sample : all) {
      CHECK((sample >= 0 && sample < n));
    }
  }
}

TEST_CASE("without shuffling samples come by their numbers", "[data]") {
  const SampleOrder order({.seed = 1}, 5, Shuffle::kNo);
  CHECK(whole(order) == std::vector<int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("seed, epoch and window each change the order", "[data]") {
  const auto order = [](uint64_t seed, uint64_t epoch, uint64_t window) {
    return whole(
        SampleOrder({.seed = seed, .epoch = epoch, .window_id = window}, 100, Shuffle::kYes));
  };
  const std::set<std::vector<int64_t>> orders = {order(1, 0, 0),
                                                 order(2, 0, 0),
                                                 order(1, 1, 0),
                                                 order(1, 0, 1),
                                                 order(1, 2, 3),
                                                 order(1, 3, 2)};
  CHECK(orders.size() == 6);
  CHECK(order(1, 2, 3) == order(1, 2, 3));
}

TEST_CASE("any position of a huge window is found at once", "[data]") {
  const int64_t n = int64_t{1} << 62;
  const SampleOrder order({.seed = 7}, n, Shuffle::kYes);
  std::set<int64_t> seen;
  for (const int64_t position : {int64_t{0}, int64_t{1}, n / 2, n - 2, n - 1}) {
    const int64_t sample = order.index(position);
    CHECK((sample >= 0 && sample < n));
    seen.insert(sample);
  }
  CHECK(seen.size() == 5);
}

}  // namespace
}  // namespace tenon
